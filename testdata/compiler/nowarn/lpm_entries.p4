// A longer prefix comes before a shorter one, wherever it stands; with priorities, order is not all.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        key = { meta.x: lpm; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            0x0a000000 &&& 0xff000000: set(1);
            0x0a010000 &&& 0xffff0000: set(2);
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
