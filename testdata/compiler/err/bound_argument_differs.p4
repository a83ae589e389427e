#include "../prelude.p4"

INGRESS {
    action set(inout bit<32> place, bit<32> value) { place = value; }
    table t {
        actions = { set(meta.x); }
        default_action = set(hdr.word.a, 1);
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
