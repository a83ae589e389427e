#include "../prelude.p4"

INGRESS {
    table t { actions = { NoAction; } }
    action f() { t.apply(); }
    apply {
        f();
    }
}

PROGRAM(Tested(), NoEgress());
