// Tuples: built, copied, indexed by constants, compared (sections 7.2.6, 8.13).
header data_t {
    bit<8>  a;
    bit<16> b;
    bit<8>  equal;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        tuple<bit<8>, bit<16>> x = { hdr.data.a, hdr.data.b };
        tuple<bit<8>, bit<16>> y = x;
        hdr.data.equal = x == y ? 8w1 : 0;
        hdr.data.b = y[1] + (bit<16>) x[0];
        y[0] = 5;
        if (x == y) { hdr.data.equal = hdr.data.equal | 2; }
        hdr.data.a = y[0];
    }
}

PROGRAM;
