#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = 1;
        resubmit({ meta.x, hdr.ethernet.ether_type, 8w5 });
    }
}

PROGRAM(Tested(), NoEgress());
