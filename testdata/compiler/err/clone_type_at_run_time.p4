#include "../prelude.p4"

INGRESS {
    apply {
        clone(meta.flag ? CloneType.I2E : CloneType.E2E, 5);
    }
}

PROGRAM(Tested(), NoEgress());
