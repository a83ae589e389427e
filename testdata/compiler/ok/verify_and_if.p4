// verify with an error of the program's own; if in a state splits it.
#include "../prelude.p4"

error { NoType }

parser OwnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        verify(hdr.ethernet.ether_type != 0, error.NoType);
        if (hdr.ethernet.ether_type > 0x600) { meta.x = 1; } else { meta.x = 2; }
        meta.y = 3;
        transition accept;
    }
}

control OwnVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

INGRESS { apply { } }

V1Switch(OwnParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
