#include "../prelude.p4"

INGRESS {
    table t {
        key = { meta.x : lmp; }
        actions = { NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
