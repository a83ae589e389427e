#include "../prelude.p4"

@name(7) const bit<8> A = 1;
struct s_t {
    @info[a = 1, a = 2] bit<8> x;
    @info[b = { 1, 2 }] bit<8> y;
}

PROGRAM(NoEgress(), NoEgress());
