#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = meta.x % 0;
    }
}

PROGRAM(Tested(), NoEgress());
