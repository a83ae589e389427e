#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = (meta.x + 1;
        meta.y = 2;
    }
}

PROGRAM(Tested(), NoEgress());
