// Each keyword is misspelt once; what is behind it is read as what was meant.
#include <core.p4>
#include <v1model.p4>

typdef bit<16> port_t;
cosnt bit<16> TYPE_IPV4 = 0x0800;

heder ethernet_t {
    bits<48> dst;
    bit<48> src;
    bit<16> type;
}

enm bit<8> kind_t {
    FIRST = 1
}

strcut headers_t {
    ethernet_t eth;
}

struct metadata_t {
    port_t port;
}

parsr P(packet_in packet, out headers_t h, inuot metadata_t m, inout standard_metadata_t s) {
    stat start {
        packet.extract(h.eth);
        transition slect(h.eth.type) {
            TYPE_IPV4: more;
            defualt: accept;
        }
    }
    state more {
        trasition accept;
    }
}

contol I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    acton drop() {
        mark_to_drop(s);
    }
    tabel t {
        key = { h.eth.dst: exact; }
        actions = { drop; }
    }
    aply {
        swtich (t.apply().action_run) {
            drop: { retrun; }
        }
        if (h.eth.isValid()) {
            m.port = 1;
        } esle {
            exti;
        }
    }
}

contrl E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { }
}

control V(inout headers_t h, inout metadata_t m) {
    apply { }
}

control D(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.eth);
    }
}

V1Switch(P(), V(), I(), E(), V(), D()) main;
