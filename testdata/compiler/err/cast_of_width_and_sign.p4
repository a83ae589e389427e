#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = (bit<32>) hdr.word.d;
    }
}

PROGRAM(Tested(), NoEgress());
