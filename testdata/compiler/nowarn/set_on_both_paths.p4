// A value from either path, a header that is made valid.
#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> sum;
        if (meta.flag) { sum = 1; } else { sum = 2; }
        hdr.words[0].setValid();
        hdr.words[0].a = sum;
        meta.x = hdr.words[0].a;
    }
}

PROGRAM(Tested(), NoEgress());
