#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = count;
        meta.x = count + 1;
        hdr.word.a = count;
    }
}

PROGRAM(Tested(), NoEgress());
