#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.d = (int<8>) hdr.word.a;
        meta.flag = (bool) hdr.word.c;
    }
}

PROGRAM(Tested(), NoEgress());
