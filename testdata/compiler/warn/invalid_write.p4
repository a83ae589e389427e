// A field that is written before its header is valid.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.words[0].a = 1;
        hdr.words[0].setValid();
    }
}

PROGRAM(Tested(), NoEgress());
