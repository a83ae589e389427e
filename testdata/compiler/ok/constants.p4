// Constants are folded, with widths from where they are used.
#include "../prelude.p4"

const bit<32> LIMIT = 40;
const bit<32> TWICE = LIMIT * 2;
const int MASK = (1 << 12) - 1;

INGRESS {
    apply {
        hdr.word.a = TWICE;
        hdr.word.c = (bit<8>) (LIMIT >> 2) + 1;
        hdr.word.b = (bit<16>) MASK;
    }
}

PROGRAM(Tested(), NoEgress());
