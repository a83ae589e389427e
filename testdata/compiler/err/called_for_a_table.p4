#include "../prelude.p4"

INGRESS {
    action set() { meta.x = 1; }
    table forward {
        key = { meta.x: exact; }
        actions = { set; }
    }
    apply {
        set.apply();
        forward();
    }
}

PROGRAM(Tested(), NoEgress());
