#include "../prelude.p4"

INGRESS {
    apply {
        uint8_t a = 0;
        unsigned b = 0;
        float c = 0;
        meta.y = 0;
    }
}

PROGRAM(Tested(), NoEgress());
