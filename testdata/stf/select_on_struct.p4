// `select` on a tuple and on a struct: one set for each scalar inside, `_` for all of them.
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> way;
}
struct headers_t { data_t data; }
struct pair_t {
    bit<8> x;
    bit<8> y;
}
struct metadata_t { pair_t pair; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.pair = { hdr.data.b, hdr.data.c };
        transition select(hdr.data.a, { hdr.data.b, hdr.data.c }) {
            (1, { 2, 3 }): first;
            (1, { 2 &&& 0xfe, _ }): second;
            (2, _): by_struct;
            default: accept;
        }
    }
    state first {
        hdr.data.way = 1;
        transition accept;
    }
    state second {
        hdr.data.way = 2;
        transition accept;
    }
    state by_struct {
        transition select(meta.pair) {
            { 7, 8 }: third;
            { x = 8, y = 9 }: third;
            default: accept;
        }
    }
    state third {
        hdr.data.way = 3;
        transition accept;
    }
}

SWITCH(TestParser, NoIngress, NoEgress);
