// What a hit sets is there where it was a hit.
#include "../prelude.p4"

INGRESS {
    bit<9> port;
    action send(bit<9> to) { port = to; }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; @defaultonly NoAction; }
        const default_action = NoAction();
    }
    apply {
        if (forward.apply().hit) { standard_metadata.egress_spec = port; }
    }
}

PROGRAM(Tested(), NoEgress());
