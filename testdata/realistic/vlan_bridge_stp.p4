// A VLAN bridge: access and trunk ports, a spanning tree state for each port and VLAN, BPDUs to the
// control plane, flooding within a VLAN.
#include "include/headers.p4"

const bit<48> BPDU_ADDRESS = 0x0180c2000000;
const bit<2> BLOCKING = 0;
const bit<2> LEARNING = 1;
const bit<2> FORWARDING = 2;

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
}

struct metadata_t {
    bit<12> vid;
    bit<3>  pcp;
    bit<2>  state;
}

struct learn_t {
    bit<12>    vid;
    mac_addr_t address;
    port_id_t  port;
}

parser BridgeParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: parse_vlan;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

// A table of spanning tree states; the control plane's protocol writes it.
control SpanningTree(in port_id_t port, in bit<12> vid, out bit<2> state) {
    action set_state(bit<2> new_state) { state = new_state; }

    // A miss: the port is not in the VLAN.
    table states {
        key = {
            port: exact @name("port");
            vid: exact @name("vid");
        }
        actions = { set_state; }
        default_action = set_state(BLOCKING);
        size = 4096;
    }

    apply {
        state = BLOCKING;
        states.apply();
    }
}

control BridgeIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    SpanningTree() spanning_tree;
    counter(4, CounterType.packets) by_state;

    action drop() { mark_to_drop(standard_metadata); }

    action punt() { standard_metadata.egress_spec = CPU_PORT; }

    action access(bit<12> vid) {
        meta.vid = vid;
        meta.pcp = 0;
    }

    action trunk(bit<12> native_vid) {
        meta.vid = native_vid;
        meta.pcp = 0;
        if (hdr.vlan.isValid()) {
            meta.pcp = hdr.vlan.pcp;
            if (hdr.vlan.vid != 0) { meta.vid = hdr.vlan.vid; }
        }
    }

    // A tagged frame on an access port is dropped, as is every frame on a port that is not listed.
    table ports {
        key = {
            standard_metadata.ingress_port: exact;
            hdr.vlan.isValid(): ternary @name("is_tagged");
        }
        actions = { access; trunk; drop; }
        default_action = drop();
        size = 256;
    }

    action known() { }

    action learn() {
        digest(1, (learn_t) { meta.vid, hdr.ethernet.src_addr, standard_metadata.ingress_port });
    }

    table sources {
        key = {
            meta.vid: exact;
            hdr.ethernet.src_addr: exact;
            standard_metadata.ingress_port: exact;
        }
        actions = { known; learn; }
        default_action = learn();
        size = 8192;
    }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    action flood(bit<16> group) { standard_metadata.mcast_grp = group; }

    table destinations {
        key = {
            meta.vid: exact;
            hdr.ethernet.dst_addr: exact;
        }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    table floods {
        key = { meta.vid: exact; }
        actions = { flood; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (hdr.ethernet.dst_addr == BPDU_ADDRESS) {
            punt();
            exit;
        }
        switch (ports.apply().action_run) {
            drop: { exit; }
            default: { }
        }
        spanning_tree.apply(standard_metadata.ingress_port, meta.vid, meta.state);
        by_state.count((bit<32>) meta.state);
        if (meta.state == BLOCKING) {
            drop();
            exit;
        }
        sources.apply();
        if (meta.state == LEARNING) {
            drop();
            exit;
        }
        if (hdr.ethernet.dst_addr[40:40] == 1 || destinations.apply().miss) {
            floods.apply();
        }
    }
}

control BridgeEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    SpanningTree() spanning_tree;

    action untag() {
        if (hdr.vlan.isValid()) {
            hdr.ethernet.ether_type = hdr.vlan.ether_type;
            hdr.vlan.setInvalid();
        }
    }

    action tag() {
        if (!hdr.vlan.isValid()) {
            hdr.vlan.setValid();
            hdr.vlan.ether_type = hdr.ethernet.ether_type;
            hdr.ethernet.ether_type = ETHERTYPE_VLAN;
            hdr.vlan.dei = 0;
        }
        hdr.vlan.vid = meta.vid;
        hdr.vlan.pcp = meta.pcp;
    }

    // How a VLAN leaves a port: trunks tag all but their native VLAN.
    table tagging {
        key = {
            standard_metadata.egress_port: exact;
            meta.vid: exact;
        }
        actions = { untag; tag; }
        default_action = untag();
        size = 4096;
    }

    apply {
        if (standard_metadata.egress_port == CPU_PORT) { return; }
        bit<2> state;
        spanning_tree.apply(standard_metadata.egress_port, meta.vid, state);
        if (state != FORWARDING || standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        } else {
            tagging.apply();
        }
    }
}

control BridgeDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(BridgeParser(), NoChecksum(), BridgeIngress(), BridgeEgress(), NoChecksum(),
         BridgeDeparser()) main;
