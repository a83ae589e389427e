// A struct with a type parameter.
#include "../prelude.p4"

struct box<T> {
    T    value;
    bool full;
}

INGRESS {
    apply {
        box<bit<16>> b = { 5, true };
        meta.y = b.value;
    }
}

PROGRAM(Tested(), NoEgress());
