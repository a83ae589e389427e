// A field of a header that was just found not to be valid.
#include "../prelude.p4"

INGRESS {
    apply {
        if (!hdr.word.isValid()) {
            meta.x = hdr.word.a;
        }
    }
}

PROGRAM(Tested(), NoEgress());
