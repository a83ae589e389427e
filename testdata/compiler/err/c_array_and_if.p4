#include "../prelude.p4"

INGRESS {
    apply {
        word_t rows[4];
        if meta.flag {
            meta.x = 1;
        }
    }
}

PROGRAM(Tested(), NoEgress());
