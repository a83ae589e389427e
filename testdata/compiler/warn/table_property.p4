#include "../prelude.p4"

INGRESS {
    table forward {
        key = { meta.x : exact; }
        actions = { NoAction; }
        default_action = NoAction();
        sise = 64;
        colour = 3;
    }
    apply { forward.apply(); }
}

PROGRAM(Tested(), NoEgress());
