// A key under a mask stays a field; a computed key is a temporary.
#include "../prelude.p4"

INGRESS {
    table t {
        key = {
            hdr.word.a & 0xff00: exact @name("masked");
            hdr.word.b + 1: exact @name("next");
            hdr.word.isValid(): exact;
            hdr.word.c[3:0]: ternary;
        }
        actions = { NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
