// A variable that has a value on one path only.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> sum;
        if (meta.flag) { sum = 1; }
        meta.x = sum;
    }
}

PROGRAM(Tested(), NoEgress());
