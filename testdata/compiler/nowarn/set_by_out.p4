// Arguments of `out` parameters, of functions and of externs.
#include "../prelude.p4"

void fill(out bit<32> value) {
    value = 1;
}

INGRESS {
    register<bit<32>>(16) seen;
    apply {
        bit<32> a;
        bit<32> b;
        seen.read(a, 0);
        fill(b);
        meta.x = a + b;
    }
}

PROGRAM(Tested(), NoEgress());
