#include "../prelude.p4"

const bit<32> MOST = 64;
header options_t {
    bit<8> size;
    @length(size * 8) varbit<64> near;
}
header late_t {
    @length(sise + MOST) varbit<64> far;
    bit<8> size;
}

INGRESS { apply { } }

PROGRAM(Tested(), NoEgress());
