#include "../prelude.p4"

INGRESS {
    apply {
        meta.flag = True;
    }
}

PROGRAM(Tested(), NoEgress());
