// A number that a cast takes bits from.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.kept = (bit<8>) 0x1ff;
    }
}

PROGRAM(Tested(), NoEgress());
