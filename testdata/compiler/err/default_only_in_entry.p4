#include "../prelude.p4"

INGRESS {
    action a() { }
    table t {
        key = { meta.x : exact; }
        actions = { @defaultonly a; @tableonly NoAction; }
        const default_action = NoAction();
        const entries = { 1 : a(); }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
