// Bools are stored as one bit, and are truth values in expressions.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.flag = hdr.word.isValid() && hdr.word.c != 0 || !meta.flag;
        if (meta.flag == false) { meta.x = (bit<32>) (bit<1>) meta.flag; }
    }
}

PROGRAM(Tested(), NoEgress());
