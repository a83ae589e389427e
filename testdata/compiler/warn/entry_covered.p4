// An entry behind one that matches all it would.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        key = { meta.y: ternary; meta.kept: ternary; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            (0x10 &&& 0xf0, _): set(1);
            (0x12 &&& 0xff, 3): set(2);
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
