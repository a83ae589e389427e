// A case behind the default.
#include "../prelude.p4"

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: accept;
            default: accept;
            0x1234: word;
        }
    }
    state word {
        packet.extract(hdr.word);
        transition accept;
    }
}

control NoIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) { apply { } }

V1Switch(MyParser(), NoChecksum(), NoIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
