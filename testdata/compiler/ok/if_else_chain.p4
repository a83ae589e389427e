// Conditionals share what follows.
#include "../prelude.p4"

INGRESS {
    apply {
        if (hdr.word.c == 1) { meta.x = 1; }
        else if (hdr.word.c == 2) { meta.x = 2; }
        else { meta.x = 3; }
        meta.y = 4;
    }
}

PROGRAM(Tested(), NoEgress());
