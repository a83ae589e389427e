#include "../prelude.p4"

INGRESS {
    bit<32> n;
    counter(n, CounterType.packets) c;
    apply {
        c.count(0);
    }
}

PROGRAM(Tested(), NoEgress());
