#include "../prelude.p4"

INGRESS {
    table decided {
        key = {
            hdr.word.a: exact;
            hdr.word.b: lpm;
        }
        actions = { NoAction; }
        entries = {
            priority = 10: (1, 2): NoAction();
            (1, 3): NoAction();
        }
    }
    table ranked {
        key = { hdr.word.a: ternary; }
        actions = { NoAction; }
        entries = {
            1 &&& 3: NoAction();
            2: NoAction();
            priority = 20: 3: NoAction();
        }
    }
    table constant {
        key = { hdr.word.a: ternary; }
        actions = { NoAction; }
        const entries = {
            priority = 1: 1 &&& 3: NoAction();
        }
    }
    table given {
        key = { hdr.word.a: ternary; }
        actions = { NoAction; }
        entries = {
            priority = 20: 1 &&& 3: NoAction();
            2: NoAction();
        }
    }
    apply {
        decided.apply();
        ranked.apply();
        constant.apply();
        given.apply();
    }
}

PROGRAM(Tested(), NoEgress());
