#include "../prelude.p4"

INGRESS {
    apply {
        meta.y = HashAlgorithm::crc16;
    }
}

PROGRAM(Tested(), NoEgress());
