// The tags for four receivers: their keys, and HalfSipHash in four lanes (one for each receiver).
#ifndef AOM_LANES_P4
#define AOM_LANES_P4

#include <core.p4>
#include <v1model.p4>
#include "aom_headers.p4"
#include "half_siphash.p4"

struct lanes_t {
    sip_state_t lane0;
    sip_state_t lane1;
    sip_state_t lane2;
    sip_state_t lane3;
}

void lanes_absorb(inout lanes_t lanes, in bit<32> word) {
    sip_absorb(lanes.lane0, word);
    sip_absorb(lanes.lane1, word);
    sip_absorb(lanes.lane2, word);
    sip_absorb(lanes.lane3, word);
}

void lanes_round(inout lanes_t lanes) {
    sip_round(lanes.lane0);
    sip_round(lanes.lane1);
    sip_round(lanes.lane2);
    sip_round(lanes.lane3);
}

void lanes_absorbed(inout lanes_t lanes, in bit<32> word) {
    sip_absorbed(lanes.lane0, word);
    sip_absorbed(lanes.lane1, word);
    sip_absorbed(lanes.lane2, word);
    sip_absorbed(lanes.lane3, word);
}

void lanes_finish(inout lanes_t lanes) {
    sip_finish(lanes.lane0);
    sip_finish(lanes.lane1);
    sip_finish(lanes.lane2);
    sip_finish(lanes.lane3);
}

void set_tags(inout aom_tags_t tags, in lanes_t lanes) {
    tags.tag0 = sip_tag(lanes.lane0);
    tags.tag1 = sip_tag(lanes.lane1);
    tags.tag2 = sip_tag(lanes.lane2);
    tags.tag3 = sip_tag(lanes.lane3);
}

// Reads epoch, group and shard; writes the first state of each lane. `known` is false if the shard has no keys; then
// the packet must not leave, since anybody could compute its tags.
control LaneKeys(inout aom_headers_t hdr, inout lanes_t lanes, inout bool known) {
    // A controller that reads the entries back finds zeros for the keys.
    @secret
    action set_keys(
        bit<32> key0_0,
        bit<32> key0_1,
        bit<32> key1_0,
        bit<32> key1_1,
        bit<32> key2_0,
        bit<32> key2_1,
        bit<32> key3_0,
        bit<32> key3_1
    ) {
        sip_init(lanes.lane0, key0_0, key0_1);
        sip_init(lanes.lane1, key1_0, key1_1);
        sip_init(lanes.lane2, key2_0, key2_1);
        sip_init(lanes.lane3, key3_0, key3_1);
    }

    // Written by the controller, one entry for four receivers. Lanes without a receiver have random
    // keys that nobody else knows.
    table lane_keys {
        key = {
            hdr.aom.group: exact @name("group");
            hdr.aom.epoch: exact @name("epoch");
            hdr.aom.shard: exact @name("shard");
        }
        actions = { set_keys; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    apply { known = lane_keys.apply().hit; }
}

#endif
