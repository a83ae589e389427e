#include "../prelude.p4"

INGRESS {
    apply {
        switch (meta.y) {
            case 1: { meta.x = 1; }
            default: { meta.x = 2; }
        }
    }
}

PROGRAM(Tested(), NoEgress());
