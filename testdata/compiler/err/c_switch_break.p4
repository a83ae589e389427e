#include "../prelude.p4"

INGRESS {
    apply {
        switch (meta.y) {
            case 1: meta.x = 1; break;
            case 2:
            case 3: meta.x = 2; break;
            default: meta.x = 3;
        }
        switch (meta.y) {
            1: meta.x = 1;
            default: meta.x = 2;
        }
        meta.x = hdr.word.b;
    }
}

PROGRAM(Tested(), NoEgress());
