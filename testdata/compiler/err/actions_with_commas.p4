#include "../prelude.p4"

INGRESS {
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action drop() { mark_to_drop(standard_metadata); }
    table routes {
        key = { meta.x : lpm; }
        actions = { forward, drop, NoAction }
        default_action = drop();
    }
    apply { routes.apply(); }
}

PROGRAM(Tested(), NoEgress());
