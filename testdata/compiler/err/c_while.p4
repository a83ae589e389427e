#include "../prelude.p4"

INGRESS {
    apply {
        while (meta.x > 0) {
            meta.x = meta.x - 1;
        }
        meta.y = 1;
    }
}

PROGRAM(Tested(), NoEgress());
