// Measures how long frames are inside the switch: the nanoseconds from a frame's arrival until egress begins replace
// the frame's first six bytes. NeoBFT's artifact writes the time in the same place.
//
//   Ethernet -> ways -> (replicas, each with a time of its own) -> stamp -> leaves

#define V1MODEL_NANOSECONDS_INSIDE
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;
typedef bit<16> group_t;

// An Ethernet header whose destination is not needed any more when the frame leaves.
header stamped_t {
    bit<48> nanoseconds;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t {
    stamped_t stamped;
}

struct metadata_t { }

parser StampParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.stamped);
        transition accept;
    }
}

control StampIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action send(port_t port) { standard_metadata.egress_spec = port; }

    action replicate(group_t group) { standard_metadata.mcast_grp = group; }

    action refuse() { mark_to_drop(standard_metadata); }

    // The controller writes for each port (or packet generator) where its frames go. A miss drops the frame. The
    // table's size allows an entry for every port.
    table ways {
        key = { standard_metadata.ingress_port: exact @name("ingress_port"); }
        actions = { send; replicate; @defaultonly refuse; }
        const default_action = refuse();
        size = 511;
    }

    apply {
        if (hdr.stamped.isValid()) {
            ways.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control StampEgress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    apply { hdr.stamped.nanoseconds = standard_metadata.nanoseconds_inside; }
}

control NoComputation(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StampDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.stamped); }
}

V1Switch(
    StampParser(),
    NoComputation(),
    StampIngress(),
    StampEgress(),
    NoComputation(),
    StampDeparser()
) main;
