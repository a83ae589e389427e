// A parameter that hides a variable of its control.
#include "../prelude.p4"

INGRESS {
    bit<9> port = 1;
    action send(bit<9> port) { standard_metadata.egress_spec = port; }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; NoAction; }
        default_action = NoAction();
    }
    apply {
        forward.apply();
        meta.y = (bit<16>) port;
    }
}

PROGRAM(Tested(), NoEgress());
