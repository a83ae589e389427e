// A drop that is undone.
#include "../prelude.p4"

INGRESS {
    apply {
        mark_to_drop(standard_metadata);
        standard_metadata.egress_spec = 2;
    }
}

PROGRAM(Tested(), NoEgress());
