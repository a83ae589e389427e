// A port that is set on another path than the drop.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.flag) {
            mark_to_drop(standard_metadata);
        } else {
            standard_metadata.egress_spec = 2;
        }
    }
}

PROGRAM(Tested(), NoEgress());
