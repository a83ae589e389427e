// A control that is instantiated and not applied.
#include "../prelude.p4"

control Count(inout metadata_t meta) {
    apply { meta.x = 1; }
}

INGRESS {
    Count() count;
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
