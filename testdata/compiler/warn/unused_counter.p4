// A counter that nothing counts with.
#include "../prelude.p4"

INGRESS {
    counter(16, CounterType.packets) packets;
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
