// Sub-controls: constructor parameters, two instances, a direct application, nesting (sections 14.4, 15.1).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Add(inout bit<8> x)(bit<8> by) {
    apply { x = x + by; }
}

control AddTwice(inout bit<8> x)(bit<8> by) {
    Add(by) first;
    Add(by + 1) second;
    apply {
        first.apply(x);
        second.apply(x);
    }
}

control Clear(out bit<8> x) {
    apply { x = 0; }
}

INGRESS {
    Add(1) one;
    AddTwice(0x10) twice;
    apply {
        one.apply(hdr.data.a);
        twice.apply(hdr.data.b);
        if (hdr.data.c == 0xff) { Clear.apply(hdr.data.c); }
        one.apply(hdr.data.c);
    }
}

PROGRAM;
