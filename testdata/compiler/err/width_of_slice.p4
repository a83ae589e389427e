#include "../prelude.p4"

INGRESS {
    apply {
        meta.y = meta.x[7:0];
    }
}

PROGRAM(Tested(), NoEgress());
