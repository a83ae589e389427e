// Registers and counters inside actions, with action data as index (v1model).
header data_t {
    bit<8>  a;
    bit<16> total;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    register<bit<16>>(8) totals;
    counter(8, CounterType.packets) seen;
    action account(bit<32> cell, bit<16> weight) {
        bit<16> total;
        totals.read(total, cell);
        total = total |+| weight;
        totals.write(cell, total);
        seen.count(cell);
        hdr.data.total = total;
    }
    table t {
        key = { hdr.data.a: exact; }
        actions = { account; NoAction; }
        default_action = NoAction();
    }
    apply { t.apply(); }
}

PROGRAM;
