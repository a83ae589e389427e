// Operands from left to right, the index and arguments before the call (sections 8.1, 6.8).
header data_t {
    bit<8> order;
    bit<8> value;
    bit<8> index;
}
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[2] items;
}
struct metadata_t { }
#include "include/blocks.p4"

bit<8> note(inout bit<8> order, in bit<8> digit) {
    order = (order << 2) | digit;
    return digit;
}

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

INGRESS {
    apply {
        bit<8> order = 0;
        hdr.data.value = note(order, 1) + note(order, 2) - note(order, 3);
        hdr.data.value = hdr.data.value + note(order, note(order, 1) + 1);
        hdr.data.order = order;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
