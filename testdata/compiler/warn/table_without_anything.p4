// A table without key and default action.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        actions = { set; NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
