// A field of a header that the parser extracts from some packets.
#include "../prelude.p4"

INGRESS {
    apply {
        meta.x = hdr.word.a;
    }
}

PROGRAM(Tested(), NoEgress());
