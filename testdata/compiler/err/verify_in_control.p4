#include "../prelude.p4"

INGRESS {
    apply {
        verify(meta.flag, error.NoMatch);
    }
}

PROGRAM(Tested(), NoEgress());
