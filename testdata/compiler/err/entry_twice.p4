#include "../prelude.p4"

INGRESS {
    table t {
        key = { meta.x : exact; }
        actions = { NoAction; }
        const entries = {
            1 : NoAction();
            0x1 : NoAction();
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
