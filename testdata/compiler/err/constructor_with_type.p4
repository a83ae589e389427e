#include "../prelude.p4"

extern E { void E(bit<8> size); }

PROGRAM(NoEgress(), NoEgress());
