// The assignments that compute.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.word.a += 5;
        hdr.word.a -= meta.x;
        hdr.word.a |= 0xf;
        hdr.word.a >>= 2;
        hdr.word.a <<= 1;
    }
}

PROGRAM(Tested(), NoEgress());
