#include "../prelude.p4"

INGRESS {
    apply {
        for (bit<8> i in 0 .. 3) { meta.x = meta.x + 1; }
        for (bit<8> i in hdr.word) { continue; }
        break;
    }
}

PROGRAM(Tested(), NoEgress());
