// Clones and recirculation in egress keep the fields of a list; resubmit in ingress.
#include "../prelude.p4"

INGRESS {
    apply {
        clone(CloneType.I2E, 5);
        clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.word.b, 1);
        resubmit_preserving_field_list(1);
    }
}
EGRESS {
    apply {
        clone_preserving_field_list(CloneType.E2E, 100, 1);
        recirculate_preserving_field_list(1);
        truncate(64);
    }
}
PROGRAM(Tested(), TestedEgress());
