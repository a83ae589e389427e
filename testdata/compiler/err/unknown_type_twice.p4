#include "../prelude.p4"

header a_t { widht_t a; }
header b_t { widht_t b; }
typedef bit<8> width_t;

PROGRAM(NoEgress(), NoEgress());
