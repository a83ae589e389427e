#include "../prelude.p4"

INGRESS {
    table t {
        key = { hdr.word.a: exact; hdr.word.b: ternary; }
        actions = { NoAction; }
        const entries = {
            (1): NoAction();
            (1, 2, 3): NoAction();
            (hdr.word.c ++ 24w0, 2): NoAction();
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
