// An action that reads a header which no packet has.
#include "../prelude.p4"

INGRESS {
    action copy() { meta.x = hdr.words[2].a; }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { copy; NoAction; }
        default_action = NoAction();
    }
    apply {
        forward.apply();
    }
}

PROGRAM(Tested(), NoEgress());
