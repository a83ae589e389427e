// A list with the number 0 is a list like any other: its packets come again and keep its fields.
#include <core.p4>
#include <v1model.p4>

header pass_t {
    bit<8> want;
    bit<8> kept;
    bit<8> instance;
}

struct headers_t {
    pass_t pass;
}

struct metadata_t {
    @field_list(0) bit<8> kept;
    bit<8> lost;
}

const bit<8> RESUBMIT = 1;
const bit<8> RECIRCULATE = 2;
const bit<32> INSTANCE_NORMAL = 0;

parser PassParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.pass);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control PassIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        hdr.pass.kept = meta.kept + meta.lost;
        hdr.pass.instance = (bit<8>) standard_metadata.instance_type;
        meta.kept = 7;
        meta.lost = 0x40;
        if (hdr.pass.want == RESUBMIT && standard_metadata.instance_type == INSTANCE_NORMAL) {
            resubmit_preserving_field_list(0);
        }
    }
}

control PassEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.pass.want == RECIRCULATE && hdr.pass.instance == 0) {
            recirculate_preserving_field_list(0);
        }
    }
}

control PassDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(PassParser(), NoChecksum(), PassIngress(), PassEgress(), NoChecksum(), PassDeparser()) main;
