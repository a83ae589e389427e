#include "../prelude.p4"

INGRESS {
    table t {
        key = { hdr.word.c : range; }
        actions = { NoAction; }
        const entries = {
            8w3 .. 8w5 : NoAction();
            8w5 .. 8w3 : NoAction();
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
