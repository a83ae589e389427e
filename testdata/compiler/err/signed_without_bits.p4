#include "../prelude.p4"

const int ZERO = 0s0;

INGRESS { apply { } }

PROGRAM(Tested(), NoEgress());
