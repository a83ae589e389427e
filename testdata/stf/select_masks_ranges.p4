// select with masks and ranges (sections 8.16.3, 8.16.4, 13.6).
header data_t {
    bit<8>  a;
    bit<16> b;
}
header mark_t { bit<8> value; }
struct headers_t {
    data_t data;
    mark_t mark;
}
struct metadata_t { bit<8> path; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.path = 0;
        transition select(hdr.data.a) {
            0x10 &&& 0xf0: by_mask;
            0x20 .. 0x2f: by_range;
            0x80 &&& 0x81: even;
            0xff: by_pair;
            default: accept;
        }
    }
    state by_mask { meta.path = 1; transition accept; }
    state by_range { meta.path = 2; transition accept; }
    state even { meta.path = 3; transition accept; }
    state by_pair {
        transition select(hdr.data.a, hdr.data.b) {
            (0xff, 100 .. 199): low;
            (_, 0x1200 &&& 0xff00): high;
            (_, _): accept;
        }
    }
    state low { meta.path = 4; transition accept; }
    state high { meta.path = 5; transition accept; }
}

INGRESS {
    apply {
        hdr.mark.setValid();
        hdr.mark.value = meta.path;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
