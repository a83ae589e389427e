#include "../prelude.p4"

extern void f(in bit<8> a, in bit<8> a);
void g<T>(in T T) { }

PROGRAM(NoEgress(), NoEgress());
