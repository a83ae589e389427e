#include "../prelude.p4"

INGRESS {
    action a() { }
    table t {
        key = { meta.x : exact; }
        actions = { NoAction; }
        const entries = { 1 : a(); }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
