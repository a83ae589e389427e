#include "../prelude.p4"

INGRESS {
    apply {
        meta.y = 'a';
    }
}

PROGRAM(Tested(), NoEgress());
