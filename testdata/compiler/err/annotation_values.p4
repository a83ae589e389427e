#include "../prelude.p4"

register<bit<8>>(1) first;
register<bit<8>>(1) second;

@mine[first == second] typedef bit<8> byte_t;
@bound[4 < byte_t] const bit<8> A = 1;
@count[missing] struct s_t { @kind[error.NoError] bit<8> x; }
@number(3) @number[] const bit<8> B = 1;
@bits[8w1] @name(4) bit<8> f() { return 1; }

INGRESS {
    @size[hdr.word.a] action a() { }
    apply { a(); }
}

PROGRAM(Tested(), NoEgress());
