#include "../prelude.p4"

INGRESS {
    apply {
        random(result = meta.x, low = 0, hi = 10);
    }
}

PROGRAM(Tested(), NoEgress());
