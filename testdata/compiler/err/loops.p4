#include "../prelude.p4"

INGRESS {
    apply {
        for (bit<8> i in 0 .. 3) { meta.x = meta.x + 1; }
        meta.y = missing;
    }
}

PROGRAM(Tested(), NoEgress());
