// An action that is in no table.
#include "../prelude.p4"

INGRESS {
    action drop() { mark_to_drop(standard_metadata); }
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
