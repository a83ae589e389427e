// An action called from apply; its arguments are its own copies.
#include "../prelude.p4"

INGRESS {
    action set(in bit<32> value, inout bit<16> place) {
        meta.x = value;
        place = place + 1;
    }
    apply {
        set(3, hdr.word.b);
        if (hdr.word.c == 0) { set(4, meta.y); }
    }
}

PROGRAM(Tested(), NoEgress());
