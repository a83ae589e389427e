// A field is what it is.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.x == meta.x) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
