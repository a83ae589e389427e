// A control that nothing instantiates.
#include "../prelude.p4"

control Unused(inout metadata_t meta) {
    apply { meta.x = 1; }
}

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
