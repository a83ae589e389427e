#include "../prelude.p4"

INGRESS {
    apply {
        int i = 0;
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
