#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.b = hdr.word.a[31:40];
        hdr.word.c = hdr.word.b[20:13];
        meta.x = meta.flag[0:0];
    }
}

PROGRAM(Tested(), NoEgress());
