// The sequencer of authenticated ordered multicast: finds the group of a request, and stamps it.
#ifndef AOM_SEQUENCER_P4
#define AOM_SEQUENCER_P4

#include <core.p4>
#include <v1model.p4>
#include "aom_headers.p4"

const bit<32> AOM_GROUPS_MAX = 1024;

// Reads the headers and parser_error; writes epoch, shard, group and sequence number of a request, `verdict`, and, for
// a request that is stamped, the multicast groups `shards` and `receivers` of its group.
control AomSequencer(
    inout aom_headers_t hdr,
    inout aom_verdict_t verdict,
    inout group_t shards,
    inout group_t receivers,
    inout standard_metadata_t standard_metadata
) {
    // Written by the controller, one cell for each group. `active` is 0 during an epoch change.
    register<bit<32>>(AOM_GROUPS_MAX) epochs;
    register<bit<1>>(AOM_GROUPS_MAX) active;
    // The sequence number of the next request; while it is 0, no request is stamped. The controller writes 1 at the
    // start of an epoch, and 0 follows 0xffffffff, so no number of an epoch is given twice. State files do not restore
    // a register that packets write, so after a restart of the switch the number is 0, and the switch stamps no request
    // before its controller has begun a new epoch. All workers share one register (@shared): if each worker had its own
    // register, each worker would give every number.
    @shared
    register<bit<32>>(AOM_GROUPS_MAX) sequences;
    counter(6, CounterType.packets_and_bytes) verdicts;
    bit<32> slot = 0;

    action set_group(
        group_t group,
        bit<32> group_slot,
        group_t shard_group,
        group_t receiver_group
    ) {
        hdr.aom.group = group;
        slot = group_slot;
        shards = shard_group;
        receivers = receiver_group;
    }

    // The controller writes the entries. The request's IPv4 destination selects the group; in requests to the
    // sequencer's own address, the request's group number selects it. A miss means that there is no such group.
    table groups {
        key = {
            hdr.ipv4.dst_addr: optional @name("address");
            hdr.aom.group: optional @name("group");
        }
        actions = { set_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        bit<1> is_active = 0;
        bit<32> number = 0;
        if (standard_metadata.parser_error != error.NoError) {
            verdict = aom_verdict_t.DROP_TRUNCATED;
        } else if (hdr.aom.kind != AOM_REQUEST) {
            verdict = aom_verdict_t.DROP_NOT_A_REQUEST;
        } else if (!groups.apply().hit) {
            verdict = aom_verdict_t.DROP_UNKNOWN_GROUP;
        } else {
            @atomic {
                active.read(is_active, slot);
                sequences.read(number, slot);
                if (is_active == 0) {
                    verdict = aom_verdict_t.DROP_INACTIVE;
                } else if (number == 0) {
                    verdict = aom_verdict_t.DROP_EXHAUSTED;
                } else {
                    verdict = aom_verdict_t.STAMPED;
                    hdr.aom.sequence = number;
                    sequences.write(slot, number + 1);
                    epochs.read(hdr.aom.epoch, slot);
                    hdr.aom.shard = 0;
                }
            }
        }
        verdicts.count((bit<32>) (bit<8>) verdict);
        if (verdict != aom_verdict_t.STAMPED) {
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
