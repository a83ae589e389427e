#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.c = 300;
        hdr.word.c = undeclared;
    }
}

PROGRAM(Tested(), NoEgress());
