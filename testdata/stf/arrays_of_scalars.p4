// An array whose elements are no headers, and a tuple that is written by index.
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8>[4] cells;
        tuple<bit<8>, bit<8>> both;
        for (bit<8> i in 0 .. 3) {
            cells[i] = hdr.data.a + i;
        }
        both[0] = cells[1];
        both[1] = cells[3];
        hdr.data.b = both[0] + both[1];
        hdr.data.c = cells[0] + cells[2];
    }
}

PROGRAM;
