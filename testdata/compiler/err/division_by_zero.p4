#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = hdr.word.a + 1 / 0;
        meta.x = 1 << -1;
    }
}

PROGRAM(Tested(), NoEgress());
