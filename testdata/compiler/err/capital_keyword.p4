#include "../prelude.p4"

INGRESS {
    apply {
        If (meta.flag) {
            meta.x = 1;
        } Else {
            meta.x = 2;
        }
    }
}

PROGRAM(Tested(), NoEgress());
