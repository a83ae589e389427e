// exit in a sub-control ends the caller too, and its inout and out arguments are copied out first (section 12.5).
header data_t {
    bit<8> what;
    bit<8> a;
    bit<8> b;
    bit<8> egress;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Inner(in bit<8> what, inout bit<8> a, out bit<8> b) {
    apply {
        a = a + 1;
        b = 5;
        if (what == 1) { exit; }
        b = 6;
    }
}

INGRESS {
    Inner() inner;
    apply {
        inner.apply(hdr.data.what, hdr.data.a, hdr.data.b);
        hdr.data.a = hdr.data.a + 0x10;
    }
}

// exit ends ingress only.
EGRESS { apply { hdr.data.egress = 1; } }

SWITCH(TestParser, TestIngress, TestEgress);
