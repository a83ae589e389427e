// Shifts by constants and by fields.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.a = hdr.word.a << 3;
        hdr.word.a = hdr.word.a >> hdr.word.c;
        hdr.word.b = 16w1 << hdr.word.c;
    }
}

PROGRAM(Tested(), NoEgress());
