// A `select` on a header that is extracted later.
#include "../prelude.p4"

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        transition select(hdr.ethernet.ether_type) {
            0x0800: ethernet;
            default: accept;
        }
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) { apply { } }

V1Switch(MyParser(), NoChecksum(), NoIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
