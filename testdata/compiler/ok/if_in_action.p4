// if inside an action becomes jumps.
#include "../prelude.p4"

INGRESS {
    action choose(bit<8> limit) {
        if (hdr.word.c > limit) { hdr.word.c = limit; } else { hdr.word.c = hdr.word.c + 1; }
        if (meta.flag) { return; }
        hdr.word.b = 1;
    }
    table t { key = { hdr.word.a: exact; } actions = { choose; NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
