// A field of a header that the parser never extracts.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = hdr.words[1].a;
    }
}

PROGRAM(Tested(), NoEgress());
