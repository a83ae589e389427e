#include "../prelude.p4"

INGRESS {
    direct_counter(CounterType.packets) d;
    table t { actions = { NoAction; } counters = d; }
    table u { actions = { NoAction; } counters = d; }
    apply {
        t.apply();
        u.apply();
    }
}

PROGRAM(Tested(), NoEgress());
