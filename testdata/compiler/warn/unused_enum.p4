// An enum that nothing has.
#include "../prelude.p4"

enum colour_t { RED, GREEN }

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
