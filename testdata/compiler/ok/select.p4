// select on several keys with masks, ranges and don't cares.
#include "../prelude.p4"

parser OwnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.word);
        transition select(hdr.word.b, hdr.word.c) {
            (0x800, 6): one;
            (0x1000 &&& 0xf000, _): two;
            (5 .. 10, 1): one;
            (_, 9): reject;
            default: accept;
        }
    }
    state one { meta.x = 1; transition two; }
    state two { meta.x = meta.x + 2; transition accept; }
}

control OwnVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

INGRESS { apply { } }

V1Switch(OwnParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
