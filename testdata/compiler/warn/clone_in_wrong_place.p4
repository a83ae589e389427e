#include "../prelude.p4"

INGRESS {
    apply {
        clone_preserving_field_list(CloneType.E2E, 1, 1);
        recirculate_preserving_field_list(1);
    }
}

PROGRAM(Tested(), NoEgress());
