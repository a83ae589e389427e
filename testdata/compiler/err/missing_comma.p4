#include "../prelude.p4"

INGRESS {
    apply {
        random(meta.x, 0 10);
    }
}

PROGRAM(Tested(), NoEgress());
