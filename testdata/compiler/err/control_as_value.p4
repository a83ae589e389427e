#include "../prelude.p4"

INGRESS {
    apply {
        bit<8> a = NoEgress;
    }
}

PROGRAM(Tested(), NoEgress());
