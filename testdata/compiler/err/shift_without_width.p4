#include "../prelude.p4"

INGRESS {
    action shift(bit<8> n) {
        meta.x = meta.x + (1 << hdr.word.a);
        meta.x = meta.x + ((1 << n) > 4 ? 1 : 2);
    }
    apply {
        shift(3);
    }
}

PROGRAM(Tested(), NoEgress());
