// Nothing is below 0 without a sign.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.x < 0) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
