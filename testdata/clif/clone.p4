// A clone that keeps a field list, and a packet that recirculates: what blocks keep between passes.
#define METADATA @field_list(1) bit<32> viewer; bit<32> rest;
#include "include/program.p4"

INGRESS {
    apply {
        meta.viewer = meta.viewer + 1;
        meta.rest = meta.viewer;
        standard_metadata.egress_spec = 2;
    }
}
EGRESS {
    apply {
        if (standard_metadata.instance_type != 2 && meta.rest < 3) {
            clone_preserving_field_list(CloneType.E2E, 5, 1);
            recirculate_preserving_field_list(1);
        }
    }
}
UPDATE { apply { } }
PROGRAM;
