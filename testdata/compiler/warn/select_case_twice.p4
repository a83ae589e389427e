// A case that an earlier one takes.
#include "../prelude.p4"

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800 &&& 0xff00: accept;
            0x0806: word;
            0x1234: word;
            default: accept;
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
