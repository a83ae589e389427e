#include "../prelude.p4"

INGRESS {
    apply {
        list<int> numbers = { 1, 2 };
        meta.x = 1;
    }
}

PROGRAM(Tested(), NoEgress());
