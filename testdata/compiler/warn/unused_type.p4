// A typedef that nothing has.
#include "../prelude.p4"

typedef bit<48> mac_address_t;

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
