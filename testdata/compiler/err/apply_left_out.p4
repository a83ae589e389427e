#include "../prelude.p4"

INGRESS {
    bit<32> before = meta.x;
    {
        meta.x = before + 1;
    }
}

PROGRAM(Tested(), NoEgress());
