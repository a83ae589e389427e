// A function that nothing calls.
#include "../prelude.p4"

bit<8> next(in bit<8> value) {
    return value + 1;
}

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
