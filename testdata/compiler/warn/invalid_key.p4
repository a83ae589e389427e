// A key in a header that the parser extracts from some packets.
#include "../prelude.p4"

INGRESS {
    table forward {
        key = { hdr.word.a: exact; }
        actions = { NoAction; }
    }
    apply {
        forward.apply();
    }
}

PROGRAM(Tested(), NoEgress());
