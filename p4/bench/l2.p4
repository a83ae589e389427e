// A learning Ethernet switch, for the pipeline benchmark. A new source address goes to the
// controller in a digest; a frame with an unknown destination address is flooded.
//
//   Ethernet -> sources -> destinations -> leaves

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// The group of all ports. Egress drops the copy to the port where the frame arrived.
const group_t FLOOD_GROUP = 1;
const bit<32> LEARN_DIGEST = 1;

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

struct learn_t {
    mac_address_t address;
    port_t port;
}

parser L2Parser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control L2Ingress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action known() { }

    action learn() {
        digest<learn_t>(
            LEARN_DIGEST,
            { hdr.ethernet.src_addr, standard_metadata.ingress_port }
        );
    }

    // The controller writes an entry after a digest. A hit means that the source is known; a miss means that it is new
    // or has moved.
    table sources {
        key = {
            hdr.ethernet.src_addr: exact @name("src_addr");
            standard_metadata.ingress_port: exact @name("port");
        }
        actions = { known; @defaultonly learn; }
        const default_action = learn();
        size = 16384;
    }

    action forward(port_t port) { standard_metadata.egress_spec = port; }

    action flood() { standard_metadata.mcast_grp = FLOOD_GROUP; }

    // The controller writes an entry together with the entry in `sources`. A hit gives one port; a miss means an
    // unknown station or a group address.
    table destinations {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward; @defaultonly flood; }
        const default_action = flood();
        size = 16384;
    }

    apply {
        if (hdr.ethernet.isValid()) {
            sources.apply();
            destinations.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control L2Egress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control NoComputation(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control L2Deparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(
    L2Parser(),
    NoComputation(),
    L2Ingress(),
    L2Egress(),
    NoComputation(),
    L2Deparser()
) main;
