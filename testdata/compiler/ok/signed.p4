// int<W> keeps its sign through arithmetic, shifts and casts.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.d = hdr.word.d + 1;
        hdr.word.d = hdr.word.d >> 2;
        hdr.word.c = (bit<8>) hdr.word.d;
        hdr.word.d = (int<8>) hdr.word.c;
        if (hdr.word.d < -3) { meta.x = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
