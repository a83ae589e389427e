#include "../prelude.p4"

control Inner(inout bit<8> a) {
    apply {
        if (a == 1) {
            a = 2;
    }
}

control Outer(inout bit<8> a) {
    apply {
        Inner.apply(a);
        a = wrong;
    }
}

PROGRAM(NoEgress(), NoEgress());
