// A loop over a stack: next, last, lastIndex; one element too many is StackOutOfBounds (sections 13.9, 8.19).
header data_t {
    bit<8> error_code;
    bit<8> last_index;
    bit<8> last_value;
}
header item_t {
    bit<1> more;
    bit<7> value;
}
struct headers_t {
    data_t    data;
    item_t[3] items;
}
struct metadata_t {
    bit<8> last_index;
    bit<8> last_value;
}
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition item;
    }
    state item {
        packet.extract(hdr.items.next);
        meta.last_index = (bit<8>) hdr.items.lastIndex;
        meta.last_value = (bit<8>) hdr.items.last.value;
        transition select(hdr.items.last.more) {
            1: item;
            default: accept;
        }
    }
}

INGRESS {
    apply {
        hdr.data.last_index = meta.last_index;
        hdr.data.last_value = meta.last_value;
        if (standard_metadata.parser_error == error.StackOutOfBounds) { hdr.data.error_code = 3; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
