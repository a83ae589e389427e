// A value behind a range with it.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        key = { meta.y: range; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            10 .. 20: set(1);
            15: set(2);
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
