// A packet creates a clone in its first pass and ends in the next pass. The clone recirculates and does the same, until
// one of these packets has recirculated too often. With `drops_clones`, every clone is dropped instead.
#include <core.p4>
#include <v1model.p4>

const bit<32> EGRESS_CLONE = 2;

header link_t {
    bit<8> passes;        // that the packet has had
    bit<8> drops_clones;
}

struct headers_t {
    link_t link;
}

struct metadata_t {
    @field_list(1) bit<8> kept;
}

parser LinkParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.link);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control LinkIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.link.passes == 1 && hdr.link.drops_clones == 0) {
            mark_to_drop(standard_metadata);
        }
    }
}

control LinkEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type != EGRESS_CLONE) {
            hdr.link.passes = hdr.link.passes + 1;
            if (hdr.link.passes == 4) {
                mark_to_drop(standard_metadata);
            } else {
                clone_preserving_field_list(CloneType.E2E, 1, 1);
                recirculate_preserving_field_list(1);
            }
        } else if (hdr.link.drops_clones == 0) {
            hdr.link.passes = 0;
            recirculate_preserving_field_list(1);
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control LinkDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.link); }
}

V1Switch(
    LinkParser(),
    NoChecksum(),
    LinkIngress(),
    LinkEgress(),
    NoChecksum(),
    LinkDeparser()
) main;
