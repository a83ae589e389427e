// One instance applied twice shares its storage; its parameters are copied.
#include "../prelude.p4"

control Add(inout bit<32> to, in bit<32> what) {
    apply { to = to + what; }
}

INGRESS {
    Add() add;
    apply {
        add.apply(meta.x, hdr.word.a);
        add.apply(hdr.word.a, meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
