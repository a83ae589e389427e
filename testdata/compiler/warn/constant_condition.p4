// A condition of literals.
#include "../prelude.p4"

INGRESS {
    apply {
        if (1 == 1) { meta.x = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
