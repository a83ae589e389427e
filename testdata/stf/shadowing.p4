// Inner names hide outer ones; the leading dot means the top level (sections 6.6.1, 6.9).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
const bit<8> VALUE = 1;
#include "include/one_header.p4"

INGRESS {
    const bit<8> VALUE = 2;
    apply {
        hdr.data.a = VALUE;
        hdr.data.b = .VALUE;
        {
            bit<8> VALUE = 3;
            hdr.data.c = VALUE;
        }
        hdr.data.c = hdr.data.c + VALUE;
    }
}

PROGRAM;
