#include "../prelude.p4"

INGRESS {
    table t { key = { hdr.word.a: exact; } actions = { set; NoAction; } default_action = clear(); }
    action set() { }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
