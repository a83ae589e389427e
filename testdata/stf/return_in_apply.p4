// return in nested blocks and in a function with several ways out (section 12.4).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> classify(in bit<8> x) {
    if (x < 10) {
        return 1;
    } else if (x < 100) {
        if (x == 42) { return 0x42; }
        return 2;
    }
    return 3;
}

INGRESS {
    apply {
        hdr.data.b = classify(hdr.data.a);
        if (hdr.data.b == 3) {
            if (hdr.data.a == 0xff) {
                hdr.data.b = 0xff;
                return;
            }
            hdr.data.b = 0x33;
        } else {
            return;
        }
        hdr.data.a = 0;
    }
}

PROGRAM;
