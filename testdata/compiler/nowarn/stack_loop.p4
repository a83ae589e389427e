// A stack that is filled in a loop, read where it cannot be known.
#include "../prelude.p4"

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x1234: more;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.words.next);
        transition select(hdr.words.last.c, hdr.words[0].d) {
            (0, 1): more;
            default: accept;
        }
    }
}

control NoIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) { apply { } }

V1Switch(MyParser(), NoChecksum(), NoIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
