// A variable that nothing names.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<8> spare;
    }
}

PROGRAM(Tested(), NoEgress());
