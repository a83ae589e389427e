#include "../prelude.p4"

control Inner(inout bit<32> a) {
    action leave() {
        a = 1;
        exit;
    }
    table t {
        key = { a: exact; }
        actions = { leave; NoAction; }
    }
    apply {
        t.apply();
    }
}

INGRESS {
    Inner() inner;
    apply {
        inner.apply(hdr.word.a);
        inner.apply(meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
