#include "../prelude.p4"

bit<8> f(in bit<8> a) { return; }
void g() { return 1; }

PROGRAM(NoEgress(), NoEgress());
