// An lpm key; a default action with an argument.
#include "../prelude.p4"

INGRESS {
    action next_hop(@id(5) bit<32> hop) { meta.x = hop; }
    table route {
        key = { hdr.word.a: lpm; hdr.word.b: exact; }
        actions = { next_hop; @defaultonly NoAction; }
        default_action = next_hop(10);
    }
    apply {
        route.apply();
    }
}

PROGRAM(Tested(), NoEgress());
