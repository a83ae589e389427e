// Plain enums are numbered; serializable enums are their numbers.
#include "../prelude.p4"

enum colour_t { RED, GREEN }
enum bit<8> kind_t {
    FIRST  = 1,
    SECOND = 0x20
}

INGRESS {
    colour_t colour = colour_t.RED;
    kind_t kind = kind_t.FIRST;
    table t {
        key = { kind: exact; }
        actions = { NoAction; }
        const entries = { kind_t.FIRST: NoAction(); }
    }
    apply {
        if (hdr.word.c == kind_t.SECOND) { colour = colour_t.GREEN; }
        kind_t k = (kind_t) hdr.word.c;
        t.apply();
        if (colour != colour_t.RED && k == kind_t.FIRST) { hdr.word.c = kind_t.SECOND; }
    }
}

PROGRAM(Tested(), NoEgress());
