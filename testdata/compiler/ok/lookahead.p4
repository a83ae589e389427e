// lookahead in a select, of a header, advance, and stacks in a loop.
#include "../prelude.p4"

parser OwnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    word_t ahead;
    state start {
        transition select(packet.lookahead<bit<16>>()) {
            0xffff: skip;
            default: look;
        }
    }
    state skip { packet.advance(16); transition look; }
    state look {
        ahead = packet.lookahead<word_t>();
        meta.x = ahead.a;
        transition loop;
    }
    state loop {
        packet.extract(hdr.words.next);
        transition select(hdr.words.last.c) {
            1: loop;
            default: accept;
        }
    }
}

control OwnVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

INGRESS { apply { } }

V1Switch(OwnParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
