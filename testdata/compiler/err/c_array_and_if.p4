#include "../prelude.p4"

struct rows_t {
    word_t rows[4];
}

INGRESS {
    apply {
        if meta.flag {
            meta.x = 1;
        }
    }
}

PROGRAM(Tested(), NoEgress());
