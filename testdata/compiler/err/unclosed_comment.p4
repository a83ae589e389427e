#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = 1;
    }
}
/* never closed

PROGRAM(Tested(), NoEgress());
