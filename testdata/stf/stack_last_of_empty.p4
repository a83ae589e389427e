// `last` of an empty stack is StackOutOfBounds (section 8.18), where it is read and nowhere else.
header data_t {
    bit<8> what;
    bit<8> error_code;
    bit<8> seen;
}
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[2] items;
}
struct metadata_t { bit<8> seen; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.seen = 1;
        transition select(hdr.data.what) {
            1: read;
            2: choose;
            3: decide;
            4: item;
            5: pop;
            default: accept;
        }
    }
    state read { meta.seen = hdr.items.last.value; transition accept; }
    state choose {
        transition select(hdr.items.last.value) {
            0: item;
            default: accept;
        }
    }
    state decide {
        bool is_other = hdr.data.error_code != 0 && hdr.items.last.value == 0;
        meta.seen = is_other ? 8w3 : 2;
        transition accept;
    }
    state item {
        packet.extract(hdr.items.next);
        meta.seen = hdr.items.last.value;
        transition accept;
    }
    state pop {
        packet.extract(hdr.items.next);
        hdr.items.pop_front(1);
        meta.seen = hdr.items.last.value;
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.data.seen = meta.seen;
        if (standard_metadata.parser_error == error.StackOutOfBounds) { hdr.data.error_code = 0xf3; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
