// int takes the width of its neighbour; a constant expression of int is exact (sections 8.9, 8.12.2).
header data_t {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
    int<8>  d;
}
struct headers_t { data_t data; }
struct metadata_t { }
const int BIG = 1 << 70;
const int SIXTEEN = BIG >> 66;
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.a = hdr.data.a + SIXTEEN;
        hdr.data.b = SIXTEEN * SIXTEEN - 1;
        hdr.data.c = (BIG / 3 - BIG / 3) + 0x1ff % 0x100 + 5 / 2;
        hdr.data.d = hdr.data.d - 3;
    }
}

PROGRAM;
