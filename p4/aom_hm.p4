// Authenticated ordered multicast with a tag for each receiver (AOM-HM), after NeoBFT (G. Sun et al., SIGCOMM 2023). A
// tag is a hash with the key of one receiver. The switch stamps each request to a group of receivers with an epoch and
// a sequence number. Every receiver gets packets with the tags of all receivers, four tags in each packet. Four
// receivers whose tags are in one packet are a shard. This program computes all 12 rounds of the hash while a packet
// runs once through the pipeline; aom_hm_rounds.p4 computes one round each time. docs/aom.md has the guarantees.
//
//   request -> stamp -> shard group -> shard i: four tags -+-> receiver group -> receiver j's address
//                                         recirculate -----'

#include <core.p4>
#include <v1model.p4>
#include "lib/aom_headers.p4"
#include "lib/aom_lanes.p4"

// The field list that a recirculated packet keeps.
const bit<8> AOM_FIELDS = 1;

const bool AOM_CHAINED = false;

enum bit<8> step_t {
    OTHER = 0, // not a request, or a request that is not stamped yet
    HASH = 1, // a shard's packet, still without tags
    DELIVER = 2 // a shard's packet with tags
}

struct metadata_t {
    aom_verdict_t verdict;
    @field_list(1) step_t step;
    @field_list(1) group_t receivers;
    group_t shards;
    lanes_t lanes;
    bool has_keys;
}

#include "lib/aom_parser.p4"
#include "lib/aom_sequencer.p4"
#include "lib/aom_receivers.p4"
#include "lib/stations.p4"

control AomIngress(
    inout aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    AomSequencer() sequencer;
    Stations() stations;

    apply {
        if (meta.step == step_t.DELIVER) {
            standard_metadata.mcast_grp = meta.receivers;
        } else if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.udp.isValid() && hdr.udp.dst_port == AOM_UDP_PORT) {
            sequencer.apply(hdr, meta.verdict, meta.shards, meta.receivers, standard_metadata);
            if (meta.verdict == aom_verdict_t.STAMPED) {
                hdr.aom.kind = AOM_TAGGED;
                hdr.udp.checksum = 0;
                meta.step = step_t.HASH;
                standard_metadata.mcast_grp = meta.shards;
            }
        } else {
            stations.apply(hdr.ethernet, standard_metadata);
        }
    }
}

// Computes the four tags of a shard's packet, with all rounds in one run through the pipeline.
control Tags(inout aom_headers_t hdr, inout lanes_t lanes, inout bool has_keys) {
    LaneKeys() lane_keys;

    apply {
        lane_keys.apply(hdr, lanes, has_keys);
        bit<32> where = hdr.aom.epoch[7:0] ++ hdr.aom.shard ++ hdr.aom.group;
        lanes_absorb(lanes, where);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_absorbed(lanes, where);
        lanes_absorb(lanes, hdr.aom.sequence);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_absorbed(lanes, hdr.aom.sequence);
        lanes_absorb(lanes, hdr.aom.digest[63:32]);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_absorbed(lanes, hdr.aom.digest[63:32]);
        lanes_absorb(lanes, hdr.aom.digest[31:0]);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_absorbed(lanes, hdr.aom.digest[31:0]);
        lanes_finish(lanes);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_round(lanes);
        lanes_round(lanes);
        set_tags(hdr.tags, lanes);
    }
}

control AomEgress(
    inout aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    Tags() tags;
    AomReceivers() receivers;

    apply {
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            if (meta.step == step_t.HASH) {
                hdr.aom.shard = standard_metadata.egress_rid[7:0];
                tags.apply(hdr, meta.lanes, meta.has_keys);
                if (meta.has_keys) {
                    meta.step = step_t.DELIVER;
                    recirculate_preserving_field_list(AOM_FIELDS);
                } else {
                    mark_to_drop(standard_metadata);
                }
            } else if (meta.step == step_t.DELIVER) {
                receivers.apply(hdr, standard_metadata);
            } else if (standard_metadata.egress_port == standard_metadata.ingress_port) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

control NoComputation(inout aom_headers_t hdr, inout metadata_t meta) {
    apply { }
}

V1Switch(
    AomParser(),
    NoComputation(),
    AomIngress(),
    AomEgress(),
    NoComputation(),
    AomDeparser()
) main;
