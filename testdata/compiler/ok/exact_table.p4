// A table with an exact key, two actions, a size and a constant default action.
#include "../prelude.p4"

INGRESS {
    action send(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = mac;
    }
    action drop() { mark_to_drop(standard_metadata); }
    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("mac"); }
        actions = { send; drop; }
        const default_action = drop();
        size = 256;
    }
    apply {
        forward.apply();
    }
}

PROGRAM(Tested(), NoEgress());
