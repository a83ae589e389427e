#include "../prelude.p4"

parser Lost(packet_in packet, out headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t standard_metadata) {
    state begin { transition select(hdr.word.a) { 1: beginn; default: accept; } }
}
INGRESS { apply { } }
V1Switch(Lost(), NoChecksum(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
