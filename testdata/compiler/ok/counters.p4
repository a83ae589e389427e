// A counter, a direct counter and what binds it.
#include "../prelude.p4"

INGRESS {
    counter(4, CounterType.packets_and_bytes) total;
    direct_counter(CounterType.bytes) hits;
    action note() { hits.count(); }
    table t {
        key = { hdr.word.a: exact; }
        actions = { note; NoAction; }
        counters = hits;
    }
    apply {
        total.count(0);
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
