// A generic function that calls itself, with other types each time.
#include "../prelude.p4"

T choose<T>(in bool first, in T left, in T right) {
    if (first) { return left; }
    tuple<T, T> both = choose(first, { left, right }, { right, left });
    return both[0];
}

INGRESS {
    apply {
        hdr.word.a = choose(meta.flag, hdr.word.a, 5);
    }
}

PROGRAM(Tested(), NoEgress());
