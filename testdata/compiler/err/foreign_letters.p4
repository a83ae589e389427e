#include "../prelude.p4"

INGRESS {
    apply {
        bit<32> сount = meta.x;
        bit<32> größe = сount;
        meta.x = сount + größe;
    }
}

PROGRAM(Tested(), NoEgress());
