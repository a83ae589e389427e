// Code behind `return`.
#include "../prelude.p4"

INGRESS {
    apply {
        return;
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
