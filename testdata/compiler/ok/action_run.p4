// switch on the action that ran, with fall-through and default.
#include "../prelude.p4"

INGRESS {
    action a() { meta.y = 1; }
    action b() { meta.y = 2; }
    action c() { meta.y = 3; }
    table t { key = { hdr.word.a: exact; } actions = { a; b; c; NoAction; } }
    table u { key = { hdr.word.b: exact; } actions = { NoAction; } }
    apply {
        switch (t.apply().action_run) {
            a:
            b: { meta.x = 1; }
            c: { u.apply(); }
            default: { meta.x = 2; }
        }
        meta.y = 9;
    }
}

PROGRAM(Tested(), NoEgress());
