#include "../prelude.p4"

INGRESS {
    table routes {
        keys = { meta.x : lpm; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    table words {
        key { hdr.word.a : exact; }
        actions = { NoAction; }
    }
    table bytes {
        key = { hdr.word.c; }
        actions = { NoAction; }
    }
    apply {
        routes.apply();
        words.apply();
        bytes.apply();
    }
}

PROGRAM(Tested(), NoEgress());
