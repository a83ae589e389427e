#include "../prelude.p4"

INGRESS {
    apply {
        switch (meta.y) {
            1: { meta.x = 1; }
            1: { meta.x = 2; }
            default: { meta.x = 3; }
            2: { meta.x = 4; }
        }
    }
}

PROGRAM(Tested(), NoEgress());
