// A result that is not looked at.
#include "../prelude.p4"

INGRESS {
    register<bit<32>>(16) seen;
    apply {
        bit<32> value;
        seen.read(value, 0);
    }
}

PROGRAM(Tested(), NoEgress());
