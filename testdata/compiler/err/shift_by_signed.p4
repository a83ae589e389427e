#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = meta.x << hdr.word.d;
    }
}

PROGRAM(Tested(), NoEgress());
