#include "../prelude.p4"

INGRESS {
    apply {
        meta.y = meta.x[-1:0];
    }
}

PROGRAM(Tested(), NoEgress());
