#include "../prelude.p4"

INGRESS {
    apply {
        hdr.words.next = hdr.word;
    }
}

PROGRAM(Tested(), NoEgress());
