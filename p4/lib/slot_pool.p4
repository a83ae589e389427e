// Stores viewers in the slots of one register pool. A group has a block of consecutive slots, and a register value,
// (base, count), that refers to the block. A block never changes while a packet may still read it: the controller
// writes a new block, then the group's value. A packet runs through the pipeline once for each viewer, because it
// recirculates. It reads the group's value only in the first run, so it sees one version of its group in all runs.
#ifndef SLOT_POOL_P4
#define SLOT_POOL_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"
#include "verdict.p4"

// 65,536 slots for blocks in use, and as many for new blocks that replace them.
const bit<32> POOL_SLOTS = 131072;
const bit<32> MAX_GROUPS = 65536;
const bit<32> MAX_VIEWERS = 65536;
const bit<32> VIEWER_ID_MASK = 0x7fffffff;

// Applied in a packet's first run through the pipeline. Reads `group`; writes `base` and `count`, and `verdict` if the
// group has no viewers.
control GroupBlock(
    inout group_t group,
    inout bit<32> base,
    inout bit<32> count,
    inout verdict_t verdict
) {
    // The controller writes (base, count) for each group; the index is the group. A value of 0 means an empty group.
    register<bit<64>>(MAX_GROUPS) groups;
    bit<64> block = 0;

    apply {
        groups.read(block, (bit<32>) group);
        base = block[63:32];
        count = block[31:0];
        if (count == 0) {
            verdict = verdict_t.DROP_EMPTY_GROUP;
        }
    }
}

// Applied in every run through the pipeline: addresses the packet to viewer `viewer_idx` of the block at `base`. Writes
// the headers, both checksums and `viewer_id`, the viewer's index in the counter of copies.
control ViewerRewrite(
    inout headers_t hdr,
    inout bit<32> base,
    inout bit<32> viewer_idx,
    inout bit<32> viewer_id
) {
    // The controller writes these registers; the index is the slot. Only the controller uses the highest bit of
    // `viewer_ids`, which means that the MAC was looked up by ARP; the other bits are the viewer's index in the
    // counter.
    register<ipv4_address_t>(POOL_SLOTS) viewer_ips;
    register<mac_address_t>(POOL_SLOTS) viewer_macs;
    register<bit<32>>(POOL_SLOTS) viewer_ids;
    ipv4_address_t viewer_ip = 0;
    bit<32> slot = 0;
    bit<32> delta = 0;

    apply {
        slot = base + viewer_idx;
        viewer_ips.read(viewer_ip, slot);
        viewer_macs.read(hdr.ethernet.dst_addr, slot);
        viewer_ids.read(viewer_id, slot);
        viewer_id = viewer_id & VIEWER_ID_MASK;

        delta = address_delta(hdr.ipv4.dst_addr, viewer_ip);
        hdr.ipv4.header_checksum = updated_checksum(hdr.ipv4.header_checksum, delta);
        hdr.udp.checksum = updated_udp_checksum(hdr.udp.checksum, delta);
        hdr.ipv4.dst_addr = viewer_ip;
    }
}

#endif
