// What only some of a table's actions set.
#include "../prelude.p4"

INGRESS {
    bit<9> port;
    action send(bit<9> to) { port = to; }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; NoAction; }
        default_action = NoAction();
    }
    apply {
        forward.apply();
        standard_metadata.egress_spec = port;
    }
}

PROGRAM(Tested(), NoEgress());
