// A variable that is read before it has a value.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> sum;
        meta.x = sum + 1;
    }
}

PROGRAM(Tested(), NoEgress());
