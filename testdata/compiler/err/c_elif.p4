#include "../prelude.p4"

INGRESS {
    apply {
        if (meta.flag) {
            meta.x = 1;
        } elif (meta.x == 2) {
            meta.x = 3;
        }
    }
}

PROGRAM(Tested(), NoEgress());
