#include "../prelude.p4"

extern E { E(); }
void f(tuple<E> t) { }

PROGRAM(NoEgress(), NoEgress());
