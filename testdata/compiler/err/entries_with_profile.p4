#include "../prelude.p4"

INGRESS {
    action_profile(8) profile;
    table t {
        key = { hdr.word.c : exact; }
        actions = { NoAction; }
        implementation = profile;
        const entries = {
            1 : NoAction();
        }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
