#include "../prelude.p4"

INGRESS {
    action set(inout bit<32> place, bit<32> value) { place = value; }
    table t {
        actions = { set(meta.x, 1); NoAction; }
        default_action = NoAction();
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
