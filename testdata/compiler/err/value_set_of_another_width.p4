#include "../prelude.p4"

parser OtherParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    value_set<bit<32>>(4) known;
    state start {
        packet.extract(hdr.word);
        transition select(hdr.word.b) {
            known: more;
            default: accept;
        }
    }
    state more {
        transition accept;
    }
}

V1Switch(OtherParser(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
