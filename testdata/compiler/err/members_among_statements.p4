#include "../prelude.p4"

INGRESS {
    apply {
        action drop() { mark_to_drop(standard_metadata); }
        table routes {
            key = { meta.x : lpm; }
            actions = { drop; }
        }
        routes.apply();
    }
}

PROGRAM(Tested(), NoEgress());
