#include "../prelude.p4"

INGRESS {
    table t {
        key = { meta.x : optional; }
        actions = { NoAction; }
        const entries = { 1 &&& 3 : NoAction(); }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
