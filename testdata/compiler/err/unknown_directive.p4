#include "../prelude.p4"

#inclde "x.p4"
#if
#endif
#include "absent.p4"
INGRESS {
    apply {
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
