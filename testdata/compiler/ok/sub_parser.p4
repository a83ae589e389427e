// A sub-parser's states are those of its caller.
#include "../prelude.p4"

parser Inner(packet_in packet, out word_t word)(bit<8> wanted) {
    state start {
        packet.extract(word);
        transition select(word.c) {
            wanted: accept;
            default: again;
        }
    }
    state again { word.c = wanted; transition accept; }
}

parser OwnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    Inner(7) inner;
    state start {
        packet.extract(hdr.ethernet);
        inner.apply(packet, hdr.word);
        meta.x = hdr.word.a;
        transition accept;
    }
}

control OwnVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

INGRESS { apply { } }

V1Switch(OwnParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
