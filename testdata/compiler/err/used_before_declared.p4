#include "../prelude.p4"

struct outer_t {
    inner_t inner;
}

header inner_t {
    bit<8> a;
}

PROGRAM(NoEgress(), NoEgress());
