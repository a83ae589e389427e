#include "../prelude.p4"

INGRESS {
    table t { actions = { NoAction; } }
    apply {
        t();
        t.hit();
    }
}

PROGRAM(Tested(), NoEgress());
