#include "../prelude.p4"

INGRESS {
    apply {
        bit<8> default = 1;
    }
}

PROGRAM(Tested(), NoEgress());
