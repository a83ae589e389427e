// A table that is not applied.
#include "../prelude.p4"

INGRESS {
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { NoAction; }
    }
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
