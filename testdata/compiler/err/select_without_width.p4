#include "../prelude.p4"

parser Mistaken(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.word);
        transition select(hdr.word.b, hdr.word.c) {
            (1, 2, 3): accept;
            default: reject;
        }
    }
}

V1Switch(Mistaken(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
