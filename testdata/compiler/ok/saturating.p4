// Saturating addition and subtraction, signed and unsigned.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.c = hdr.word.c |+| 200;
        hdr.word.c = hdr.word.c |-| 10;
        hdr.word.d = hdr.word.d |+| 100;
    }
}

PROGRAM(Tested(), NoEgress());
