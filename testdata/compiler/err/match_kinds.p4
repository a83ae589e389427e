#include "../prelude.p4"

INGRESS {
    table t { key = { hdr.word.a: exat; hdr.word.b: lpm; hdr.word.c: lpm; } actions = { NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
