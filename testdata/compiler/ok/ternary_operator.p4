// ?: on numbers and on bools.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.a = meta.flag ? hdr.word.a : 32w5;
        meta.flag = hdr.word.c == 0 ? true : hdr.word.b > 3;
    }
}

PROGRAM(Tested(), NoEgress());
