#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = 1
        meta.y = 2;
        meta.x = 3 +;
        meta.y = nothing;
    }
}

PROGRAM(Tested(), NoEgress());
