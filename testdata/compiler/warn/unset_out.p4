// An `out` parameter that gets no value.
#include "../prelude.p4"

void fill(out bit<8> value) {
}

INGRESS {
    apply {
        bit<8> value;
        fill(value);
        meta.kept = value;
    }
}

PROGRAM(Tested(), NoEgress());
