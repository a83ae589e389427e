// Headers in a struct of headers are emitted in order of declaration, depth first (section 16.1).
header data_t { bit<8> a; }
struct inner_t {
    data_t x;
    data_t y;
}
struct headers_t {
    data_t  data;
    inner_t inner;
    data_t  last;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.last.setValid();
        hdr.last.a = 4;
        hdr.inner.y.setValid();
        hdr.inner.y.a = 3;
        if (hdr.data.a == 1) {
            hdr.inner.x = hdr.data;
            hdr.inner.x.a = 2;
        }
    }
}

PROGRAM;
