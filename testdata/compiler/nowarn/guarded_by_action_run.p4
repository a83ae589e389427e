// What an action sets is there where it ran.
#include "../prelude.p4"

INGRESS {
    bit<9> port;
    action send(bit<9> to) { port = to; }
    table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; NoAction; }
        const default_action = NoAction();
    }
    apply {
        switch (forward.apply().action_run) {
            send: { standard_metadata.egress_spec = port; }
        }
    }
}

PROGRAM(Tested(), NoEgress());
