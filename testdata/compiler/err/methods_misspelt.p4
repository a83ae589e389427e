#include "../prelude.p4"

INGRESS {
    table routes {
        key = { meta.x : lpm; }
        actions = { NoAction; }
    }
    apply {
        if (hdr.word.isvalid()) { meta.x = 1; }
        if (hdr.word.valid) { meta.x = 2; }
        if (routes.apply().hit()) { meta.x = 3; }
        meta.flag = (bool) meta.x[3];
    }
}

PROGRAM(Tested(), NoEgress());
