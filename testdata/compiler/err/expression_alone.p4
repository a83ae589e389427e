#include "../prelude.p4"

INGRESS {
    apply {
        meta.x;
        meta.x + 1;
    }
}

PROGRAM(Tested(), NoEgress());
