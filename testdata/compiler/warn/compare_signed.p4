// Every int<8> is at least -128.
#include "../prelude.p4"

INGRESS {
    apply {
        if (hdr.word.isValid() && hdr.word.d >= -128) { meta.y = 1; }
    }
}

PROGRAM(Tested(), NoEgress());
