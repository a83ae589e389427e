#include "../prelude.p4"

INGRESS {
    apply {
        random(meta.x, lo = 0, lo = 10);
    }
}

PROGRAM(Tested(), NoEgress());
