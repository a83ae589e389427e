// packet.advance by a constant, a field and an expression: the bytes that it skips belong to no
// header and are gone from the packet.
#include <core.p4>
#include <v1model.p4>

header skip_t {
    bit<8> kind;
    bit<8> n_bits;
}

header end_t {
    bit<8> value;
}

header seen_t {
    bit<8> parser_error;
}

struct headers_t {
    seen_t seen;
    skip_t skip;
    end_t  end;
}

struct metadata_t { }

parser SkipParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.skip);
        transition select(hdr.skip.kind) {
            1: by_constant;
            2: by_field;
            3: by_expression;
            default: accept;
        }
    }
    state by_constant {
        packet.advance(16);
        transition end;
    }
    state by_field {
        packet.advance((bit<32>) hdr.skip.n_bits);
        transition end;
    }
    state by_expression {
        packet.advance((bit<32>) hdr.skip.n_bits << 3);
        transition end;
    }
    state end {
        packet.extract(hdr.end);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control SkipIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        hdr.seen.setValid();
        hdr.seen.parser_error = 0;
        if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.seen.parser_error = 1;
        }
        standard_metadata.egress_spec = 1;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control SkipDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(SkipParser(), NoChecksum(), SkipIngress(), NoEgress(), NoChecksum(), SkipDeparser()) main;
