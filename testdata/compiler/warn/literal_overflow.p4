// A number that loses bits.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.kept = 300;
    }
}

PROGRAM(Tested(), NoEgress());
