// Shows what a copy sees of the queue in which it waited, and makes copies of copies in every possible way. The frame
// says what ingress and egress do with the frame, and each copy contains what egress saw of the copy's queue.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<4> group;
    bit<4> port;
    bit<3> priority;
    bit<5> passes;    // passes that are left
    bit<8> ingress;
    bit<8> egress;
}

header seen_t {
    bit<16> enq_qdepth;
    bit<16> deq_qdepth;
    bit<16> rid;
    bit<8>  instance;
    bit<8>  kept;
    bit<32> waited;
}

struct headers_t {
    command_t command;
    seen_t seen;
}

struct metadata_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}

const bit<8> CLONE = 1;
const bit<8> TRUNCATE = 2;
const bit<8> AGAIN = 4;
const bit<8> DROP_ODD = 8;
const bit<8> DROP = 16;
const bit<8> HIDE = 32;

parser CommandParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.command);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control FanoutIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    register<bit<32>>(1) n_passes;
    bit<32> n = 0;

    apply {
        n_passes.read(n, 0);
        n_passes.write(0, n + 1);
        meta.kept = meta.kept + 1;
        standard_metadata.priority = hdr.command.priority;
        standard_metadata.egress_spec = (bit<9>) hdr.command.port;
        standard_metadata.mcast_grp = (bit<16>) (hdr.command.group & 3);
        if ((hdr.command.ingress & CLONE) != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>) (hdr.command.group & 3), 1);
        }
        if ((hdr.command.ingress & TRUNCATE) != 0) {
            truncate(20);
        }
        if ((hdr.command.ingress & AGAIN) != 0 && meta.kept < 3) {
            resubmit_preserving_field_list(1);
        }
        if ((hdr.command.ingress & DROP) != 0) {
            mark_to_drop(standard_metadata);
            standard_metadata.mcast_grp = 0;
        }
    }
}

control FanoutEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) copies;

    apply {
        copies.count((bit<32>) standard_metadata.egress_rid & 15);
        meta.lost = meta.lost + 1;
        hdr.seen.setValid();
        hdr.seen.enq_qdepth = (bit<16>) standard_metadata.enq_qdepth;
        hdr.seen.deq_qdepth = (bit<16>) standard_metadata.deq_qdepth;
        hdr.seen.rid = standard_metadata.egress_rid;
        hdr.seen.instance = (bit<8>) standard_metadata.instance_type;
        hdr.seen.kept = meta.kept + meta.lost;
        hdr.seen.waited = standard_metadata.deq_timedelta;
        if ((hdr.command.egress & HIDE) != 0) {
            hdr.seen.setInvalid();
        }
        if (hdr.command.passes != 0) {
            hdr.command.passes = hdr.command.passes - 1;
            if ((hdr.command.egress & CLONE) != 0) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>) (hdr.command.group & 3), 1);
            }
            if ((hdr.command.egress & AGAIN) != 0) {
                recirculate_preserving_field_list(1);
            }
        }
        if ((hdr.command.egress & TRUNCATE) != 0) {
            truncate(24);
        }
        if ((hdr.command.egress & DROP_ODD) != 0 && (standard_metadata.egress_rid & 1) != 0) {
            mark_to_drop(standard_metadata);
        }
        if ((hdr.command.egress & DROP) != 0) {
            mark_to_drop(standard_metadata);
        }
    }
}

control CommandDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.command);
        packet.emit(hdr.seen);
    }
}

V1Switch(
    CommandParser(),
    NoChecksum(),
    FanoutIngress(),
    FanoutEgress(),
    NoChecksum(),
    CommandDeparser()
) main;
