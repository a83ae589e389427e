// A header with a varbit field, extracted with its length.
#include "../prelude.p4"

header options_t { bit<8> length; varbit<320> data; }
struct own_t { options_t options; }
parser OwnParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    own_t own;
    state start {
        packet.extract(own.options, (bit<32>) packet.lookahead<bit<8>>() * 8);
        transition accept;
    }
}

control OwnVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

INGRESS { apply { } }

V1Switch(OwnParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
