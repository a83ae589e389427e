// Two instances of one control have tables, registers and counters of their own.
#include "../prelude.p4"

control Count(in bit<32> key, inout bit<32> total)(bit<32> cells) {
    register<bit<32>>(cells) totals;
    counter(cells, CounterType.packets) packets;
    bit<32> old = 0;
    action bump() { total = total + old; }
    table by_key { key = { key: exact; } actions = { bump; NoAction; } size = cells; }
    apply {
        totals.read(old, key);
        totals.write(key, old + 1);
        packets.count(key);
        by_key.apply();
    }
}

INGRESS {
    Count(16) first;
    Count(32) second;
    apply {
        first.apply(hdr.word.a, meta.x);
        second.apply(hdr.word.a, meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
