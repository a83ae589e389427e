#include "../prelude.p4"

INGRESS {
    @id(7) table t { actions = { NoAction; } }
    @id(7) table u { actions = { NoAction; } }
    apply {
        t.apply();
        u.apply();
    }
}

PROGRAM(Tested(), NoEgress());
