#include "../prelude.p4"

INGRESS {
    apply {
        hash(meta.y, HashAlgorithm.crc16, 0, { meta.x }, 100);
    }
}

PROGRAM(Tested(), NoEgress());
