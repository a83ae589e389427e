// The sequencer of authenticated ordered multicast: which group a request is for, and its stamp.
#ifndef AOM_SEQUENCER_P4
#define AOM_SEQUENCER_P4

#include <core.p4>
#include <v1model.p4>
#include "aom_headers.p4"

const bit<32> AOM_GROUPS_MAX = 1024;

// Reads the headers and parser_error; writes epoch, shard, group and sequence number of a request,
// `verdict`, and, for a request that is stamped, the two multicast groups of its group.
control AomSequencer(
    inout aom_headers_t hdr,
    inout aom_verdict_t verdict,
    inout group_t shards,
    inout group_t receivers,
    inout standard_metadata_t standard_metadata
) {
    // Written by the controller, a cell a group; `active` is 0 while an epoch is being advanced.
    register<bit<32>>(AOM_GROUPS_MAX) epochs;
    register<bit<1>>(AOM_GROUPS_MAX) active;
    // The number that the next request gets; 0: none. The controller writes 1 when it begins an
    // epoch, and 0 comes after 0xffffffff: no number of an epoch is given twice. Packets write this
    // register, so a switch that is started anew has 0 here, whatever its state file restores: it
    // stamps nothing before its controller has begun a new epoch. With a register for each worker
    // each would give every number.
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

    // Written by the controller: a group is known by its IPv4 address, or by its number in the
    // request, sent to the sequencer's own address. Miss: no such group.
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
