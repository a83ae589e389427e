#include "../prelude.p4"

INGRESS {
    register<bit<8>>(-1) cells;
    apply {
        cells.write(0, 1);
    }
}

PROGRAM(Tested(), NoEgress());
