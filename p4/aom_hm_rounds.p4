// Authenticated ordered multicast with a tag for each receiver (AOM-HM). This program sends the same bytes as
// aom_hm.p4, but suits a switch that has too few stages for the whole hash: a packet with the tags of a shard (four
// receivers) recirculates twelve times, and each run through the pipeline computes one round.
//
//   request -> stamp -> shard group -> [ shard i: round r ] * 12 -> receiver group -> receiver j
//                                        ^-- recirculate --'

#include <core.p4>
#include <v1model.p4>
#include "lib/aom_headers.p4"
#include "lib/aom_lanes.p4"

// The field list that a recirculated packet keeps.
const bit<8> AOM_FIELDS = 1;

// The hash has two rounds for each of the four words, then four rounds at the end.
const bit<8> ABSORBING_ROUNDS = 8;
const bit<8> ROUNDS = 12;

// The output port of a shard's packet between two rounds. The packet recirculates before it could leave by this port.
const port_t NO_PORT = 0;

const bool AOM_CHAINED = false;

enum bit<8> step_t {
    OTHER = 0, // not a request, or a request that is not stamped yet
    HASH = 1, // a shard's packet between two rounds
    DELIVER = 2 // a shard's packet with tags
}

struct metadata_t {
    aom_verdict_t verdict;
    @field_list(1) step_t step;
    @field_list(1) group_t receivers;
    group_t shards;
    @field_list(1) lanes_t lanes;
    @field_list(1) bit<8> round; // the next round
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
        } else if (meta.step == step_t.HASH) {
            standard_metadata.egress_spec = NO_PORT;
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

// Computes one round for a shard's packet, and the steps that the hash has before and after that round.
control Round(inout aom_headers_t hdr, inout lanes_t lanes, in bit<8> round) {
    apply {
        bit<32> word = hdr.aom.epoch[7:0] ++ hdr.aom.shard ++ hdr.aom.group;
        if (round[3:1] == 1) {
            word = hdr.aom.sequence;
        } else if (round[3:1] == 2) {
            word = hdr.aom.digest[63:32];
        } else if (round[3:1] == 3) {
            word = hdr.aom.digest[31:0];
        }
        if (round == ABSORBING_ROUNDS) {
            lanes_finish(lanes);
        } else if (round < ABSORBING_ROUNDS && round[0:0] == 0) {
            lanes_absorb(lanes, word);
        }
        lanes_round(lanes);
        if (round < ABSORBING_ROUNDS && round[0:0] == 1) {
            lanes_absorbed(lanes, word);
        }
    }
}

control AomEgress(
    inout aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    LaneKeys() lane_keys;
    Round() round;
    AomReceivers() receivers;

    apply {
        if (meta.step == step_t.HASH) {
            meta.has_keys = true;
            if (standard_metadata.instance_type == INSTANCE_REPLICA) {
                hdr.aom.shard = standard_metadata.egress_rid[7:0];
                lane_keys.apply(hdr, meta.lanes, meta.has_keys);
            }
            if (meta.has_keys) {
                round.apply(hdr, meta.lanes, meta.round);
                meta.round = meta.round + 1;
                if (meta.round == ROUNDS) {
                    set_tags(hdr.tags, meta.lanes);
                    meta.step = step_t.DELIVER;
                }
                recirculate_preserving_field_list(AOM_FIELDS);
            } else {
                mark_to_drop(standard_metadata);
            }
        } else if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            if (meta.step == step_t.DELIVER) {
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
