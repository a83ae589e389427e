// A range includes both ends: none where it is empty, 256 rounds for all values of a byte; the
// bounds are read once. A loop over a stack sees a copy of each element.
header data_t {
    bit<8>  low;
    bit<8>  high;
    bit<16> rounds;
    bit<8>  last;
    bit<16> all;
    bit<8>  items;
}
header item_t { bit<8> v; }
struct headers_t {
    data_t    data;
    item_t[3] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

INGRESS {
    apply {
        for (bit<8> i in hdr.data.low .. hdr.data.high) {
            hdr.data.high = 0;
            hdr.data.rounds = hdr.data.rounds + 1;
            hdr.data.last = i;
        }
        for (bit<8> i in 0 .. 255) {
            hdr.data.all = hdr.data.all + (bit<16>) i;
        }
        for (item_t item in hdr.items) {
            hdr.items[2].v = 0x10;
            hdr.data.items = hdr.data.items + item.v;
        }
        for (bit<8> value in (list<bit<8>>) { 1, 2, 3 }) {
            hdr.data.items = hdr.data.items + value;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
