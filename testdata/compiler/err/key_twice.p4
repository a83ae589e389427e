#include "../prelude.p4"

INGRESS {
    table t {
        key = { meta.x : exact; }
        key = { meta.y : exact; }
        actions = { NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
