#include "../prelude.p4"

INGRESS {
    table t {
        key = { (int<8>) (bit<8>) hdr.word.a: range @name("a"); }
        actions = { NoAction; }
        const entries = { 3 .. -3: NoAction(); }
    }
    table prefix {
        key = { (int<8>) (bit<8>) hdr.word.a: lpm @name("a"); }
        actions = { NoAction; }
        const entries = { -1 &&& 15: NoAction(); }
    }
    apply {
        t.apply();
        prefix.apply();
    }
}

PROGRAM(Tested(), NoEgress());
