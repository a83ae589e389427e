// A field that is assigned to itself.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = meta.x;
    }
}

PROGRAM(Tested(), NoEgress());
