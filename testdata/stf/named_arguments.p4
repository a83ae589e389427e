// Arguments by name in any order, for functions, actions, controls and constructors (section 6.8).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> minus(in bit<8> from, in bit<8> what) { return from - what; }

control Scale(inout bit<8> value, in bit<8> offset)(bit<8> factor, bit<8> extra) {
    apply { value = value * factor + offset + extra; }
}

INGRESS {
    Scale(extra = 1, factor = 3) scale;
    action set(in bit<8> x, in bit<8> y) { hdr.data.b = x - y; }
    apply {
        hdr.data.a = minus(what = hdr.data.b, from = hdr.data.a);
        set(y = 1, x = hdr.data.a);
        scale.apply(offset = hdr.data.b, value = hdr.data.c);
    }
}

PROGRAM;
