// Actions called like functions: in, out, inout; a table binds them and leaves the rest to the control plane
// (section 14.1).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action add(in bit<8> x, inout bit<8> y, out bit<8> z, bit<8> by) {
        y = y + x + by;
        z = by;
    }
    table t {
        key = { hdr.data.a: exact; }
        actions = { add(hdr.data.a, hdr.data.b, hdr.data.c); NoAction; }
        default_action = NoAction();
    }
    apply {
        if (!t.apply().hit) {
            add(1, hdr.data.b, hdr.data.c, 2);
        }
    }
}

PROGRAM;
