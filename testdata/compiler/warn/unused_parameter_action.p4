// Action data that the action does not use.
#include "../prelude.p4"

INGRESS {
    action send(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
    }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; NoAction; }
        default_action = NoAction();
    }
    apply {
        forward.apply();
    }
}

PROGRAM(Tested(), NoEgress());
