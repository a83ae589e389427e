// Code behind a block that exits either way.
#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.flag) { exit; } else { return; }
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
