// Each message says what to write.
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
    counter(10, packets) c;
    action drop() {
        drop();
    }
    table t {
        key = { h.eth.dst: exact; }
        actions = { drop; }
    }
    apply {
        if (m.m == true) {
            m.m = 1;
        }
        if (t.apply()) {
            m.m = 2;
        }
        if (h.eth.isValid) {
            m.m = 3;
        }
        hash(m.m, crc16, 8w0, { h.eth.dst }, 8w255);
    }
}

control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { }
}

control D(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.eth);
    }
}

V1Switch(P(), V(), I(), E(), V(), D()) main;
