#include "../prelude.p4"

INGRESS {
    action f(in bit<32> value) { value = 3; }
    action g(bit<8> data) { data = 1; }
    apply {
        f(1);
        5 = meta.x;
    }
}

PROGRAM(Tested(), NoEgress());
