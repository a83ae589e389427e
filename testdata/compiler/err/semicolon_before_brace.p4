#include "../prelude.p4"

INGRESS {
    action drop() { mark_to_drop(standard_metadata) }
    table routes {
        key = { meta.x : lpm }
        actions = { drop; NoAction }
        default_action = drop();
    }
    apply { routes.apply() }
}

PROGRAM(Tested(), NoEgress());
