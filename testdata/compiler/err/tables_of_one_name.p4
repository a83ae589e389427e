#include "../prelude.p4"

control Inner(inout headers_t hdr) {
    table own { key = { hdr.word.a : exact; } actions = { NoAction; } }
    apply { own.apply(); }
}

INGRESS {
    @name("t") table a { key = { hdr.word.a : exact; } actions = { NoAction; } }
    @name("t") table b { key = { hdr.word.b : exact; } actions = { NoAction; } }
    @name("i") Inner() first;
    @name("i") Inner() second;
    apply {
        a.apply();
        b.apply();
        first.apply(hdr);
        second.apply(hdr);
    }
}

PROGRAM(Tested(), NoEgress());
