// A generic function is made once for each set of types.
#include "../prelude.p4"

T choose<T>(in bool first, in T left, in T right) {
    if (first) { return left; }
    return right;
}

INGRESS {
    apply {
        hdr.word.a = choose(meta.flag, hdr.word.a, 5);
        hdr.word.b = choose(meta.flag, hdr.word.b, hdr.word.b + 1);
    }
}

PROGRAM(Tested(), NoEgress());
