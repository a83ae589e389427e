#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.d = hdr.word.d / 2;
        meta.x = 7 / -1;
    }
}

PROGRAM(Tested(), NoEgress());
