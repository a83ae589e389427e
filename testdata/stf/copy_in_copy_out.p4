// Arguments are copied in at the call and out at the return, left to right: the last one wins (section 6.8).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

void both(inout bit<8> x, inout bit<8> y) {
    x = x + 1;
    y = y + 0x10;
}

void halves(inout bit<4> x, inout bit<4> y) {
    x = x + 1;
    y = y + 2;
}

void see(in bit<8> before, inout bit<8> value, out bit<8> seen) {
    value = value + 1;
    seen = before;
}

INGRESS {
    apply {
        both(hdr.data.a, hdr.data.a);
        see(hdr.data.b, hdr.data.b, hdr.data.c);
        halves(hdr.data.d[3:0], hdr.data.d[7:4]);
    }
}

PROGRAM;
