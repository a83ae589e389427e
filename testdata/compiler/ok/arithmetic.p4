// Every operator on bit<W> is cut to its width.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.a = hdr.word.a + 1;
        hdr.word.a = hdr.word.a - meta.x;
        hdr.word.b = hdr.word.b * 3;
        hdr.word.c = ~hdr.word.c;
        hdr.word.c = -hdr.word.c;
        hdr.word.a = hdr.word.a / 7 + hdr.word.a % 7;
    }
}

PROGRAM(Tested(), NoEgress());
