#include "../prelude.p4"

INGRESS {
    apply {
        headers_t hdr;
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
