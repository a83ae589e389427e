#include "../prelude.p4"

parser OtherParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.words[meta.y]);
        transition accept;
    }
}

V1Switch(OtherParser(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
