// A condition on a named constant is a switch that somebody sets.
#include "../prelude.p4"

const bool WITH_COUNT = true;
const bit<32> LEAST = 0;

INGRESS {
    apply {
        if (WITH_COUNT) { meta.x = meta.x + 1; }
        if (meta.x >= LEAST) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
