// A state that ends without saying where to.
#include "../prelude.p4"

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
    }
}

control NoIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) { apply { } }

V1Switch(MyParser(), NoChecksum(), NoIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
