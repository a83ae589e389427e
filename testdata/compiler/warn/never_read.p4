// A variable that is assigned, and then not read.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> last;
        last = meta.x;
    }
}

PROGRAM(Tested(), NoEgress());
