#include "../prelude.p4"

extern E { E(); void join(E other); }

PROGRAM(NoEgress(), NoEgress());
