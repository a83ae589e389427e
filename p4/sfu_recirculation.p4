// A selective forwarding unit that recirculates a packet once for each viewer. Packets arrive and leave by the same
// port. The program follows E. Papageorgiou, "Implementing a Recirculation-Based Selective Forwarding Unit Using P4"
// (Athens University of Economics and Business, 2026), sections 2.2 and 3; docs/sfu.md lists where it differs.
//
//   arrival -> presenter -> block of viewers -> [ rewrite for viewer i -> clone leaves ] * count
//                                                 ^--------- recirculate ---------'

#include <core.p4>
#include <v1model.p4>
#include "lib/headers.p4"
#include "lib/verdict.p4"

// The mirror session of the copies. The controller sets its output port to the SFU's port.
const bit<32> MIRROR_SESSION = 100;

// The field list that a clone and a recirculated packet keep.
const bit<8> SERVED_FIELDS = 1;

struct metadata_t {
    verdict_t verdict;
    mac_address_t own_mac;
    @field_list(1) group_t group;
    @field_list(1) bit<32> base; // first slot of the group's block
    @field_list(1) bit<32> count; // viewers in the block; 0: not a served packet
    @field_list(1) bit<32> viewer_idx; // the viewer that this pass serves
    @field_list(1) bit<32> viewer_id;
    @field_list(1) port_t arrival_port;
}

#include "lib/header_parser.p4"
#include "lib/arrival.p4"
#include "lib/neighbour.p4"
#include "lib/answer.p4"
#include "lib/presenter.p4"
#include "lib/slot_pool.p4"

control SfuIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    Arrival() arrival;
    HeardNeighbours() heard_neighbours;
    PresenterLookup() presenter_lookup;
    GroupBlock() group_block;
    VerdictCount() verdict_count;
    Answer() answer;
    PacketOut() packet_out;
    TtlDecrement() ttl_decrement;
    ViewerRewrite() viewer_rewrite;

    apply {
        if (hdr.packet_out.isValid()) {
            packet_out.apply(hdr, standard_metadata);
        } else {
            // Before the first recirculation, ingress handles the packet as it arrived; afterwards it only makes
            // copies.
            if (standard_metadata.instance_type != INSTANCE_RECIRCULATED) {
                arrival.apply(hdr, meta.verdict, meta.own_mac, standard_metadata);
                heard_neighbours.apply(hdr, standard_metadata);
                if (meta.verdict == verdict_t.SERVE) {
                    presenter_lookup.apply(hdr, meta.verdict, meta.group);
                }
                if (meta.verdict == verdict_t.SERVE) {
                    group_block.apply(meta.group, meta.base, meta.count, meta.verdict);
                }
                verdict_count.apply(meta.verdict, standard_metadata);
                answer.apply(hdr, meta.verdict, meta.own_mac, standard_metadata);
                if (meta.verdict == verdict_t.SERVE) {
                    meta.arrival_port = standard_metadata.ingress_port;
                    hdr.ethernet.src_addr = meta.own_mac;
                    ttl_decrement.apply(hdr.ipv4);
                }
            }
            if (meta.count != 0) {
                viewer_rewrite.apply(hdr, meta.base, meta.viewer_idx, meta.viewer_id);
                standard_metadata.egress_spec = meta.arrival_port;
            }
        }
    }
}

control SfuEgress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    counter(MAX_VIEWERS, CounterType.packets_and_bytes) viewer_copies;

    apply {
        if (meta.count != 0) {
            if (standard_metadata.instance_type == INSTANCE_EGRESS_CLONE) {
                viewer_copies.count(meta.viewer_id); // a copy on its way out
            } else if (meta.viewer_idx + 1 < meta.count) {
                clone_preserving_field_list(CloneType.E2E, MIRROR_SESSION, SERVED_FIELDS);
                recirculate_preserving_field_list(SERVED_FIELDS);
                meta.viewer_idx = meta.viewer_idx + 1;
            } else {
                viewer_copies.count(meta.viewer_id); // the original is the last copy
            }
        }
    }
}

V1Switch(
    HeaderParser(),
    HeaderVerification(),
    SfuIngress(),
    SfuEgress(),
    NoComputation(),
    HeaderDeparser()
) main;
