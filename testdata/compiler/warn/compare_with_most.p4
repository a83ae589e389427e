// Every bit<8> is at most 255.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.kept <= 255) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
