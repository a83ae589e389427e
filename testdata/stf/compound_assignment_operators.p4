// Each operator with assignment, on a slice too (section 12.1).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
    bit<8> e;
    bit<8> f;
    bit<8> g;
    bit<8> h;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.a += 3;
        hdr.data.b -= 3;
        hdr.data.c *= 3;
        hdr.data.d &= 0x0f;
        hdr.data.e |= 0x0f;
        hdr.data.f ^= 0xff;
        hdr.data.g <<= 2;
        hdr.data.g >>= 1;
        hdr.data.h |+|= 0xf0;
        hdr.data.a |-|= 1;
        hdr.data.b[3:0] += 1;
    }
}

PROGRAM;
