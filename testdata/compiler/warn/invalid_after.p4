// A field of a header that was made invalid.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.ethernet.setInvalid();
        meta.y = hdr.ethernet.ether_type;
    }
}

PROGRAM(Tested(), NoEgress());
