// A packet that recirculates and creates a clone in each pass through the pipeline (a round), and everything that can
// end these rounds. The frame contains a plan: one byte for each of the packet's passes, beginning with the last byte.
#include <core.p4>
#include <v1model.p4>

header plan_t {
    bit<8>  passes;   // passes that are left
    bit<8>  clone;    // what the clones do
    bit<64> steps;    // what the packet does, the next pass in the lowest byte
}

header grown_t {
    bit<8>  number;
    bit<24> of;
}

header sum_t {
    bit<16> sum;
    bit<16> n;
}

struct headers_t {
    plan_t plan;
    sum_t sum;
    grown_t[3] grown;
}

struct metadata_t {
    @field_list(1) bit<8> kept;
    @field_list(1, 2) bit<8> clone;
    @field_list(2) bit<8> other;
    bit<8> lost;
}

// What the packet does in one pass, as bits of a byte. The lowest two bits are the session of the pass's clone.
const bit<8> NO_CLONE = 4;
const bit<8> ENDS = 8;
const bit<8> DROP = 16;
const bit<8> GROW = 32;
const bit<8> OTHER_LIST = 64;
const bit<8> SELDOM = 128;

// What the clones do, as bits of a byte.
const bit<8> CLONE_DROP = 1;
const bit<8> CLONE_AGAIN = 2;
const bit<8> CLONE_CUT = 4;
const bit<8> CLONE_GROW = 8;

parser PlanParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.plan);
        packet.extract(hdr.sum);
        transition select(hdr.sum.n) {
            0: accept;
            default: grown;
        }
    }
    state grown {
        packet.extract(hdr.grown.next);
        transition select(hdr.grown.last.number) {
            1: accept;
            default: grown;
        }
    }
}

control VerifyPlan(inout headers_t hdr, inout metadata_t meta) { apply { } }

control PlanIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    counter(4, CounterType.packets_and_bytes) passes;

    apply {
        passes.count((bit<32>) standard_metadata.instance_type & 3);
        meta.lost = meta.lost + 1;
        standard_metadata.egress_spec = (bit<9>) hdr.plan.steps[1:0];
        if (hdr.plan.steps[7:0] & SELDOM != 0) {
            // Ingress does one of several unusual things.
            if (hdr.plan.steps[10:8] == 0) {
                standard_metadata.mcast_grp = 1;
            } else if (hdr.plan.steps[10:8] == 1) {
                clone_preserving_field_list(CloneType.I2E, 1, 1);
            } else if (hdr.plan.steps[10:8] == 2) {
                mark_to_drop(standard_metadata);
            } else if (hdr.plan.steps[10:8] == 3) {
                truncate(70);
            } else if (hdr.plan.steps[10:8] == 4) {
                digest<bit<8>>(1, meta.kept);
            } else if (hdr.plan.steps[10:8] == 5) {
                standard_metadata.egress_spec = 300;
            } else {
                standard_metadata.priority = hdr.plan.steps[10:8];
            }
        }
    }
}

control PlanEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter(4, CounterType.packets_and_bytes) copies;
    register<bit<32>>(4) lengths;
    bit<32> length = 0;
    bit<8> now = hdr.plan.steps[7:0];

    apply {
        lengths.read(length, 0);
        lengths.write(0, length * 3 + standard_metadata.packet_length + (bit<32>) meta.lost);
        copies.count((bit<32>) standard_metadata.egress_rid & 3);
        meta.kept = meta.kept + 1;
        hdr.sum.sum = hdr.sum.sum + (bit<16>) meta.kept + (bit<16>) meta.other;
        if (standard_metadata.instance_type == 2) {
            hdr.plan.passes = 255;
            if (meta.clone & CLONE_GROW != 0) {
                hdr.grown.push_front(1);
                hdr.grown[0].setValid();
                hdr.grown[0].number = 2;
                hdr.grown[0].of = (bit<24>) standard_metadata.egress_rid;
                hdr.sum.n = hdr.sum.n + 1;
            }
            if (meta.clone & CLONE_DROP != 0 && meta.kept & 3 == 3) {
                mark_to_drop(standard_metadata);
            }
            if (meta.clone & CLONE_CUT != 0 && meta.kept & 3 == 2) {
                truncate(18);
            }
            if (meta.clone & CLONE_AGAIN != 0 && meta.kept & 7 == 5) {
                hdr.plan.passes = 0;
                recirculate_preserving_field_list(2);
            }
        } else if (hdr.plan.passes != 0 && hdr.plan.passes != 255) {
            meta.clone = hdr.plan.clone;
            meta.other = meta.other + 7;
            hdr.plan.passes = hdr.plan.passes - 1;
            if (now & NO_CLONE == 0) {
                if (now & OTHER_LIST != 0) {
                    clone_preserving_field_list(CloneType.E2E, (bit<32>) now & 3, 2);
                } else {
                    clone_preserving_field_list(CloneType.E2E, (bit<32>) now & 3, 1);
                }
            }
            if (now & ENDS == 0) {
                if (now & OTHER_LIST != 0) {
                    recirculate_preserving_field_list(2);
                } else {
                    recirculate_preserving_field_list(1);
                }
            }
            if (now & GROW != 0) {
                hdr.grown.push_front(1);
                hdr.grown[0].setValid();
                hdr.grown[0].number = hdr.sum.n == 0 ? 8w1 : 8w2;
                hdr.grown[0].of = meta.kept ++ meta.other ++ meta.lost;
                hdr.sum.n = hdr.sum.n + 1;
            }
            if (now & DROP != 0) {
                mark_to_drop(standard_metadata);
            }
            hdr.plan.steps = now ++ hdr.plan.steps[63:8];
        }
    }
}

control PlanSum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sum.isValid(), { hdr.plan.passes, hdr.plan.steps, hdr.sum.n },
                        hdr.sum.sum, HashAlgorithm.csum16);
    }
}

control PlanDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.plan);
        packet.emit(hdr.sum);
        packet.emit(hdr.grown);
    }
}

V1Switch(
    PlanParser(),
    VerifyPlan(),
    PlanIngress(),
    PlanEgress(),
    PlanSum(),
    PlanDeparser()
) main;
