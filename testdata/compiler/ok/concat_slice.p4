// Concatenation, slices as values, slices as places.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.b = hdr.word.c ++ 8w7;
        hdr.word.c = hdr.word.a[15:8];
        hdr.word.a[23:16] = hdr.word.c;
        hdr.word.a[31:24] = 0xff;
    }
}

PROGRAM(Tested(), NoEgress());
