#include "../prelude.p4"

struct pair_t { bit<8> a; bit<8> b; }

INGRESS {
    register<pair_t>(4) r;
    apply {
        
    }
}

PROGRAM(Tested(), NoEgress());
