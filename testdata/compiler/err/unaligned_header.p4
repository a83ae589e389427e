#include "../prelude.p4"

header odd_t { bit<3> three; }

INGRESS {
    odd_t o;
    apply {
        o.setValid();
    }
}

PROGRAM(Tested(), NoEgress());
