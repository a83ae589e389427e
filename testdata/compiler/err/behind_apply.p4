// A control has declarations, then one `apply`.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<16> type;
}

struct headers_t {
    ethernet_t eth;
}

struct metadata_t {
    bit<8> m;
}

parser P(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.eth);
        transition accept;
    }
}

control V(inout headers_t h, inout metadata_t m) {
    apply { }
}

control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        m.m = 1;
    }
    apply {
        m.m = 2;
    }
}

control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        drop();
        t.apply();
    }
    action drop() {
        mark_to_drop(s);
    }
    table t {
        key = { h.eth.dst: exact; }
        actions = { drop; }
    }
}

control F(inout headers_t h, inout metadata_t m) {
    apply { }
    m.m = 3;
    if (m.m == 4) {
        m.m = 5;
    }
}

control D(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.eth);
    }
}

V1Switch(P(), V(), I(), E(), F(), D()) main;
