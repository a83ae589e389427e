#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = hdr.word.aa;
        meta.x = mta.x;
        meta.x = missing;
    }
}

PROGRAM(Tested(), NoEgress());
