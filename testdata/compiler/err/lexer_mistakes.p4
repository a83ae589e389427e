#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = 8x12;
        meta.y = $;
        meta.x = 0b12;
    }
}

PROGRAM(Tested(), NoEgress());
