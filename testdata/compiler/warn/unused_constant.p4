// A constant that nothing reads.
#include "../prelude.p4"

const bit<16> TYPE_IPV6 = 0x86dd;

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
