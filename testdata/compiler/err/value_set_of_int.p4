#include "../prelude.p4"

parser Mistaken(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    value_set<int>(4) ports;
    state start {
        packet.extract(hdr.word);
        transition select(hdr.word.b) {
            ports: accept;
            default: reject;
        }
    }
}

V1Switch(Mistaken(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
