#include "../prelude.p4"

struct main { bit<8> a; }

PROGRAM(NoEgress(), NoEgress());
