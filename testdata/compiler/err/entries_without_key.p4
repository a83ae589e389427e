#include "../prelude.p4"

INGRESS {
    table t {
        actions = { NoAction; }
        const entries = { 1 : NoAction(); }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
