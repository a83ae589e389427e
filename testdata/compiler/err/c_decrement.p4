#include "../prelude.p4"

INGRESS {
    apply {
        meta.x--;
    }
}

PROGRAM(Tested(), NoEgress());
