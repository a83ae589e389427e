// direct_counter: every hit counts, with count() in the action or without (v1model).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_counter(CounterType.packets) silent_hits;
    action set(bit<8> value) {
        hits.count();
        hdr.data.b = value;
    }
    action nothing() { }
    table t {
        key = { hdr.data.a: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        counters = hits;
    }
    table u {
        key = { hdr.data.b: exact; }
        actions = { nothing; NoAction; }
        default_action = NoAction();
        counters = silent_hits;
    }
    apply {
        t.apply();
        u.apply();
    }
}

PROGRAM;
