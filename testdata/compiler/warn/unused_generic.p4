// A generic struct that nothing instantiates; what it names counts as used.
#include "../prelude.p4"

typedef bit<8> small_t;
struct pair_t<T> {
    T first;
    small_t second;
}

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
