// A parameter of a function that nothing reads.
#include "../prelude.p4"

bit<32> twice(in bit<32> value, in bit<16> scale) {
    return value << 1;
}

INGRESS {
    apply {
        meta.x = twice(meta.x, meta.y);
    }
}

PROGRAM(Tested(), NoEgress());
