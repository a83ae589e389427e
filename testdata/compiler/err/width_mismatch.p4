#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.a = hdr.word.b;
        hdr.word.c = hdr.word.a + hdr.word.b;
        meta.flag = hdr.word.c;
        if (hdr.word.c) { }
    }
}

PROGRAM(Tested(), NoEgress());
