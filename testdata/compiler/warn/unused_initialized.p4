// A variable with an initial value that nothing reads.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> spare = meta.x + 1;
    }
}

PROGRAM(Tested(), NoEgress());
