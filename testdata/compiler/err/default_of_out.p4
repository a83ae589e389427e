#include "../prelude.p4"

void f(out bit<8> a = 1) { a = 1; }

PROGRAM(NoEgress(), NoEgress());
