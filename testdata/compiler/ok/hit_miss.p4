// What follows depends on hit and miss.
#include "../prelude.p4"

INGRESS {
    table t { key = { hdr.word.a: exact; } actions = { NoAction; } }
    table u { key = { hdr.word.b: exact; } actions = { NoAction; } }
    table v { key = { hdr.word.c: exact; } actions = { NoAction; } }
    apply {
        if (t.apply().hit) { meta.x = 1; } else { meta.x = 2; }
        if (!u.apply().hit) { meta.y = 3; }
        bool both = v.apply().miss && meta.flag;
        if (both) { meta.y = 4; }
    }
}

PROGRAM(Tested(), NoEgress());
