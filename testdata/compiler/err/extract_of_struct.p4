#include "../prelude.p4"

parser Mistaken(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr);
        transition accept;
    }
}

V1Switch(Mistaken(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
