#include "../prelude.p4"

INGRESS {
    action f() { }
    action f() { }
    apply {
        bit<8> a = 1;
        bit<8> a = 2;
    }
}

PROGRAM(Tested(), NoEgress());
