// A variable that hides a constant.
#include "../prelude.p4"

const bit<16> LIMIT = 7;

INGRESS {
    apply {
        bit<8> LIMIT = meta.kept + 1;
        meta.kept = LIMIT;
        meta.y = .LIMIT;
    }
}

PROGRAM(Tested(), NoEgress());
