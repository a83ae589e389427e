#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = hdr->word;
    }
}

PROGRAM(Tested(), NoEgress());
