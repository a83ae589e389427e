// A condition that may go with the value: it cannot be known, so nothing is said.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> sum;
        if (meta.flag) { sum = 1; }
        if (meta.flag) { meta.x = sum; }
        if (hdr.ethernet.ether_type == 0x1234) { meta.x = hdr.word.a; }
    }
}

PROGRAM(Tested(), NoEgress());
