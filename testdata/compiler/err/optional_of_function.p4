#include "../prelude.p4"

bit<8> f(@optional in bit<8> a) { return a; }

PROGRAM(NoEgress(), NoEgress());
