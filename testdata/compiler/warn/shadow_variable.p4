// A variable that hides another.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> x = meta.x;
        if (meta.flag) {
            bit<32> x = 1;
            meta.x = x;
        }
        meta.y = x[15:0];
    }
}

PROGRAM(Tested(), NoEgress());
