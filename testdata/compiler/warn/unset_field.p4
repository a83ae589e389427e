// A field of a struct that is read before it has a value.
#include "../prelude.p4"

struct pair_t {
    bit<8> first;
    bit<8> second;
}

INGRESS {
    apply {
        pair_t pair;
        pair.first = 1;
        meta.kept = pair.first + pair.second;
    }
}

PROGRAM(Tested(), NoEgress());
