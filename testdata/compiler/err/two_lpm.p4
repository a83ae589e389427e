#include "../prelude.p4"

INGRESS {
    table t { key = { hdr.word.a: lpm; hdr.word.b: lpm; } actions = { NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
