// Sets of a select on int<W>: ranges in the order of the type, values and masks (sections 8.16.3, 8.16.4, 13.6); a key that a
// cast widens; nothing behind the set of all keys counts.
header data_t {
    int<8>   a;
    bit<8>   b;
    int<4>   c;
    bit<4>   pad;
    bit<8>   result;
    bit<88>  rest;
}
struct headers_t { data_t data; }
struct metadata_t { bit<8> found; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.found = 0;
        transition select(hdr.data.a, hdr.data.c) {
            (-3 .. 3, _): near_zero;
            (-128 .. -100, -8 .. -1): cold;
            (-128 .. 127, 7): all;
            (-16 &&& -16, _): masked;
            (100, -8): value;
            default: widened;
        }
    }
    state near_zero { meta.found = 1; transition accept; }
    state cold { meta.found = 2; transition accept; }
    state all { meta.found = 3; transition accept; }
    state masked { meta.found = 4; transition accept; }
    state value { meta.found = 5; transition accept; }
    state widened {
        transition select((bit<12>)hdr.data.b, (int<12>)hdr.data.a) {
            (0x0f0 .. 0x10f, 50 .. 60): wide;
            (_, -2048 .. -90): negative;
            default: first;
        }
    }
    state wide { meta.found = 6; transition accept; }
    state negative { meta.found = 7; transition accept; }
    state first {
        transition select(hdr.data.b) {
            _: everything;
            1: nothing;
        }
    }
    state everything { meta.found = 8; transition accept; }
    state nothing { meta.found = 9; transition accept; }
}

INGRESS {
    apply { hdr.data.result = meta.found; }
}

SWITCH(TestParser, TestIngress, NoEgress);
