// A stack's elements by constants and by an index known at run time; size (section 8.19).
header data_t {
    bit<8> index;
    bit<8> value;
}
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[4] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items[0]);
        packet.extract(hdr.items[1]);
        packet.extract(hdr.items[2]);
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.data.value = hdr.items[hdr.data.index].value;
        hdr.items[hdr.data.index].value = 0x99;
        hdr.items[0] = hdr.items[1];
        if (hdr.items.size == 4 && !hdr.items[3].isValid()) {
            hdr.items[3].setValid();
            hdr.items[3].value = hdr.items[2].value + 1;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
