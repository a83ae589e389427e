// An action declared at the top level, used by two tables of two controls (section 14.1).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

action scale(inout bit<8> what, bit<8> by) { what = what * by; }

INGRESS {
    table t { key = { hdr.data.a: exact; } actions = { scale(hdr.data.a); NoAction; } default_action = NoAction(); }
    apply { t.apply(); }
}

EGRESS {
    table t { key = { hdr.data.a: exact; } actions = { scale(hdr.data.b); NoAction; } default_action = NoAction(); }
    apply {
        t.apply();
        scale(hdr.data.a, 2);
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
