#include "../prelude.p4"

INGRESS {
    table t {
        key = { meta.x : lpm; }
        actions = { NoAction; }
        const entries = {
            0x0a000000 &&& 0xff000000 : NoAction();
            0x0a010000 &&& 0xffff0000 : NoAction();
            0x0a000001 &&& 0xff000000 : NoAction();
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
