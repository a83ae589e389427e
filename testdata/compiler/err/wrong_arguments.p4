#include "../prelude.p4"

bit<32> f(in bit<32> a, in bit<32> b) { return a; }

INGRESS {
    table t { actions = { NoAction; } }
    apply {
        meta.x = f(1);
        meta.x = f(1, true);
        t.apply(3);
    }
}

PROGRAM(Tested(), NoEgress());
