// Parameters with default values may be left out (section 6.8.2).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> plus(in bit<8> x, in bit<8> y = 8w1, in bit<8> z = 8w0) { return x + y + z; }

INGRESS {
    apply {
        hdr.data.a = plus(hdr.data.a);
        hdr.data.b = plus(hdr.data.b, 8w2);
        hdr.data.c = plus(x = hdr.data.c, z = 8w0x10);
    }
}

PROGRAM;
