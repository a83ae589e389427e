// A function's in, out, inout and directionless constant parameters; a result that nobody uses (section 10, 6.8).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> mix(in bit<8> x, out bit<8> y, inout bit<8> z) {
    y = x + 1;
    z = z + y;
    return z ^ 0xff;
}

void bump(inout bit<8> x) {
    if (x == 0xff) { return; }
    x = x + 1;
}

INGRESS {
    apply {
        hdr.data.result = mix(hdr.data.a, hdr.data.b, hdr.data.c);
        mix(5, hdr.data.b, hdr.data.c);
        bump(hdr.data.a);
    }
}

PROGRAM;
