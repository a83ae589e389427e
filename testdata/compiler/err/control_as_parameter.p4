#include "../prelude.p4"

control A() { apply { } }
control B()(A a) { apply { } }

PROGRAM(NoEgress(), NoEgress());
