#include "../prelude.p4"

INGRESS {
    table t { key = { hdr.word.a: exact; } actions = { NoAction; } }
    apply {
        if (t.apply().hit) { meta.x = 1; }
        t.apply();
        meta.y = 1;
    }
}

PROGRAM(Tested(), NoEgress());
