#include "../prelude.p4"

INGRESS {
    apply {
        hdr.words.push_front(meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
