#include "../prelude.p4"

INGRESS {
    apply {
        register<bit<8>>(4) r;
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
