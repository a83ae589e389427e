#include "../prelude.p4"

struct pair_t<T> { T a; T b; }
struct all_t { pair_t<pair_t<bit<8>>> p; }

PROGRAM(NoEgress(), NoEgress());
