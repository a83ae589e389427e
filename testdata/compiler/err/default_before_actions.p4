#include "../prelude.p4"

INGRESS {
    table t {
        default_action = NoAction();
        actions = { NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
