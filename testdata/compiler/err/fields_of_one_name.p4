#include "../prelude.p4"

INGRESS {
    action set(@name("x") bit<8> a, @name("x") bit<16> b) { hdr.word.c = a; hdr.word.b = b; }
    table t {
        key = { hdr.word.a : exact @name("k"); hdr.word.b : exact @name("k"); }
        actions = { set; NoAction; }
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
