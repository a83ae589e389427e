// A constant of a control that nothing reads.
#include "../prelude.p4"

INGRESS {
    const bit<8> LIMIT = 3;
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
