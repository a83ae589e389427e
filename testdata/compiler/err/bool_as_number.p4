#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = meta.flag;
        if (meta.x) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
