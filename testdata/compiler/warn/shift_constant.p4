// A constant that is shifted out of its width.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.kept = 8w1 << 8;
    }
}

PROGRAM(Tested(), NoEgress());
