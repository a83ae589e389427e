#include "../prelude.p4"

INGRESS {
    apply {
        meta.flag = hdr.word == 1;
    }
}

PROGRAM(Tested(), NoEgress());
