#include "../prelude.p4"

INGRESS {
    action set(bit<32> value) { meta.x = value; }
    table t {
        actions = { set; }
        default_action = set();
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
