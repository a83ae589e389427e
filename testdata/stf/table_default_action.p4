// Default actions: none, with arguments, const, set by the control plane (section 14.2.1.3).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set_a(bit<8> value) { hdr.data.a = value; }
    action set_b(bit<8> value) { hdr.data.b = value; }
    action set_c(bit<8> value, bit<8> more) { hdr.data.c = value + more; }
    table without { key = { hdr.data.a: exact; } actions = { set_a; } }
    table fixed { key = { hdr.data.b: exact; } actions = { set_b; } const default_action = set_b(2); }
    table changing { key = { hdr.data.c: exact; } actions = { set_c; } default_action = set_c(3, 4); }
    apply {
        without.apply();
        fixed.apply();
        changing.apply();
    }
}

PROGRAM;
