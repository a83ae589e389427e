// A value with bits that its mask leaves out.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        key = { meta.y: ternary; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            0x1234 &&& 0xff00: set(1);
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
