// The control plane chooses an action for packets that have the header.
#include "../prelude.p4"

INGRESS {
    action copy() { meta.x = hdr.word.a; }
    table forward {
        key = { hdr.word.isValid(): exact; hdr.word.b: ternary; }
        actions = { copy; NoAction; }
        default_action = NoAction();
    }
    apply {
        forward.apply();
    }
}

PROGRAM(Tested(), NoEgress());
