#include "../prelude.p4"

parser OtherParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.words.next);
        hdr.words.last = hdr.word;
        hdr.words.last.a = 1;
        hdr.words.last.setInvalid();
        packet.extract(hdr.words.last);
        hdr.words.push_front(-1);
        hdr.words.pop_front(-2);
        transition accept;
    }
}

V1Switch(OtherParser(), NoChecksum(), NoEgress(), NoEgress(), NoChecksum(), TestDeparser()) main;
