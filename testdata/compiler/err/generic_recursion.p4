// A generic function or control that contains itself, with other types each time.
#include "../prelude.p4"

T choose<T>(in bool first, in T left, in T right) {
    if (first) { return left; }
    tuple<T, T> both = choose(first, { left, right }, { right, left });
    return both[0];
}

control Again<T>(inout T value) {
    apply {
        tuple<T, T> both = { value, value };
        Again<tuple<T, T>>.apply(both);
    }
}

INGRESS {
    Again<bit<32>>() again;
    apply {
        hdr.word.a = choose(meta.flag, hdr.word.a, 5);
        again.apply(meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
