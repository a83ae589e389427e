#include "../prelude.p4"

INGRESS {
    register<bit<8>>(1) a;
    register<bit<8>>(1) b;
    apply {
        meta.flag = a == b;
    }
}

PROGRAM(Tested(), NoEgress());
