#include "../prelude.p4"

bit<8> next(in bit<8> value) { return value + 1; }
bit<8> plus(in bit<8> value = next(1), in bit<8> other) { return value + other; }

INGRESS { apply { hdr.word.c = plus(other = 2); } }

PROGRAM(Tested(), NoEgress());
