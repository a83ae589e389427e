// A variable of a header type begins as not valid.
#include "../prelude.p4"

INGRESS {
    apply {
        word_t mine;
        meta.x = mine.a;
    }
}

PROGRAM(Tested(), NoEgress());
