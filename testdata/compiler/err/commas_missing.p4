#include "../prelude.p4"

INGRESS {
    action both(bit<32> a bit<16> b) {
        meta.x = a;
        meta.y = b;
    }
    apply {
        meta = { 1 2, true, 3 };
        both(1 2);
        both(1, 2;
        meta.x = 3;
    }
}

PROGRAM(Tested(), NoEgress());
