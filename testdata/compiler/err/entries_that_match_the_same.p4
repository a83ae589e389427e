#include "../prelude.p4"

INGRESS {
    table prefixes {
        key = { hdr.word.a: lpm; }
        actions = { NoAction; }
        const entries = {
            0x10000000 &&& 0xF0000000: NoAction();
            0x1F000000 &&& 0xF0000000: NoAction();
        }
    }
    table ranks {
        key = { hdr.word.a: ternary; }
        actions = { NoAction; }
        const entries = {
            0x10 &&& 0xF0: NoAction() @priority(3);
            0x1F &&& 0xF0: NoAction() @priority(3);
            0x1F &&& 0xF0: NoAction() @priority(4);
        }
    }
    apply {
        prefixes.apply();
        ranks.apply();
    }
}

PROGRAM(Tested(), NoEgress());
