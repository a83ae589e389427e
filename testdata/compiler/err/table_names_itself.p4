#include "../prelude.p4"

control Inner(in bit<8> value) {
    table value {
        key = { value: exact; }
        actions = { NoAction; }
    }
    apply { value.apply(); }
}

INGRESS { apply { Inner.apply(hdr.word.c); } }

PROGRAM(Tested(), NoEgress());
