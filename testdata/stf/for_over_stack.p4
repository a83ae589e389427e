// for over the elements of a header stack and with an index into it (section 12.8).
header data_t { bit<8> sum; }
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[3] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition item;
    }
    state item {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.value[7:7]) {
            1: accept;
            default: item;
        }
    }
}

INGRESS {
    apply {
        hdr.data.sum = 0;
        for (item_t item in hdr.items) {
            if (item.isValid()) { hdr.data.sum = hdr.data.sum + (item.value & 0x7f); }
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
