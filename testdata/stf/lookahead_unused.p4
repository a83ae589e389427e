// lookahead as a statement: its value goes nowhere, but a packet that is too short for it is an
// error of the parser.
#include <core.p4>
#include <v1model.p4>

header seen_t {
    bit<8> parser_error;
}

header three_t {
    bit<24> value;
}

struct headers_t {
    seen_t seen;
}

struct metadata_t { }

parser LookParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.lookahead<three_t>();
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control LookIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        hdr.seen.setValid();
        hdr.seen.parser_error = 0;
        if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.seen.parser_error = 1;
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control LookDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.seen); }
}

V1Switch(LookParser(), NoChecksum(), LookIngress(), NoEgress(), NoChecksum(), LookDeparser()) main;
