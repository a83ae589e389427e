#include "../prelude.p4"

control Inner(inout bit<8> a)
    apply {
        a = 2;
    }
}

PROGRAM(NoEgress(), NoEgress());
