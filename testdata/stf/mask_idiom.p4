// Precedence: & binds weaker than == in C, stronger here; shifts, sums, comparisons (section 8, grammar).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> seen;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> seen = 0;
        if (hdr.data.a & 0x0f == 0x05) { seen = seen | 1; }
        if (hdr.data.a | 0x80 == 0x85 && hdr.data.b ^ 1 == 2 || hdr.data.c == 9) { seen = seen | 2; }
        seen = seen | 1 << 2 + 1;
        seen = seen | hdr.data.b & 0x30 + 0x10;
        hdr.data.seen = seen;
    }
}

PROGRAM;
