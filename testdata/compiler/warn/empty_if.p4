// A condition that decides nothing.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.x == 1) { }
    }
}

PROGRAM(Tested(), NoEgress());
