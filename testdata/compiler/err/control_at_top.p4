#include "../prelude.p4"

control Inner() { apply { } }
Inner() inner;

PROGRAM(NoEgress(), NoEgress());
