#include "../prelude.p4"

INGRESS {
    register<bit<8>>(16) rows[4];
    apply {
        if meta.flag {
            meta.x = 1;
        }
    }
}

PROGRAM(Tested(), NoEgress());
