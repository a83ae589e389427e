#include "../prelude.p4"

INGRESS {
    apply {
        meta.x++;
        meta.y = 1;
    }
}

PROGRAM(Tested(), NoEgress());
