// A shift by the whole width.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = meta.x << 32;
    }
}

PROGRAM(Tested(), NoEgress());
