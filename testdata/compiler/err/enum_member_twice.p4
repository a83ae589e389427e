#include "../prelude.p4"

enum Color_t { RED, GREEN, RED }

PROGRAM(NoEgress(), NoEgress());
