#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.x = 1) {
            meta.y = 1;
        }
    }
}

PROGRAM(Tested(), NoEgress());
