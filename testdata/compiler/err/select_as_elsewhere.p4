// A select without parentheses, with arrows, with commas.
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
        transition select h.eth.type {
            0x0800: arrows;
            default: accept;
        }
    }
    state arrows {
        transition select(h.eth.type) {
            1 -> commas;
            2 -> nothing;
        }
    }
    state nothing {
        transition select {
            1: accept;
        }
    }
    state commas {
        transition select(h.eth.type) {
            1: accept,
            2: accept,
            default: reject
        }
    }
}

control V(inout headers_t h, inout metadata_t m) {
    apply { }
}

control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { }
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
