// What L2L3 and L2L3-ACL share: headers, parser, the tables that switch and route, deparser. The
// tables are those of the L2L3-ACL pipeline that PISCES is measured with (Shahbaz et al., SIGCOMM
// 2016, section 5), in their order. A frame has one VLAN tag inside the pipeline, whether it came
// and leaves with it or without.
#ifndef BENCH_VLAN_ROUTER_P4
#define BENCH_VLAN_ROUTER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

const bit<32> LEARN_DIGEST = 1;

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ports_t ports;
}

struct metadata_t { }

struct learn_t {
    mac_address_t address;
    vlan_id_t vlan_id;
    port_t port;
}

#include "ipv4_checksum.p4"

parser VlanRouterParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_VLAN: parse_vlan;
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_ports;
            (5, 0, PROTOCOL_UDP): parse_ports;
            default: accept;
        }
    }
    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

// From vlan_ingress to destinations. A frame that is dropped here is not seen by what follows, save
// by a table that does not know its destination.
control VlanRouter(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action drop() { mark_to_drop(standard_metadata); }

    action accept_tag() { }

    action add_tag(vlan_id_t vlan_id) {
        hdr.vlan.setValid();
        hdr.vlan.priority_code = 0;
        hdr.vlan.drop_eligible = 0;
        hdr.vlan.vlan_id = vlan_id;
        hdr.vlan.ether_type = hdr.ethernet.ether_type;
        hdr.ethernet.ether_type = ETHER_TYPE_VLAN;
    }

    // Which frames a port takes, and the VLAN of those without a tag. A miss drops.
    table vlan_ingress {
        key = {
            standard_metadata.ingress_port: exact @name("port");
            hdr.vlan.isValid(): exact @name("is_tagged");
            hdr.vlan.vlan_id: exact @name("vlan_id");
        }
        actions = { accept_tag; add_tag; @defaultonly drop; }
        const default_action = drop();
        size = 64;
    }

    action known() { }

    action learn() {
        digest<learn_t>(
            LEARN_DIGEST,
            { hdr.ethernet.src_addr, hdr.vlan.vlan_id, standard_metadata.ingress_port }
        );
    }

    // Written by the controller after a digest. Hit: a known station; miss: a new one.
    table sources {
        key = { hdr.ethernet.src_addr: exact @name("src_addr"); }
        actions = { known; @defaultonly learn; }
        const default_action = learn();
        size = 4096;
    }

    action route() { }

    // Which stations send through the router, and its address in their VLAN. A miss is switched.
    table routable {
        key = {
            hdr.ethernet.src_addr: exact @name("src_addr");
            hdr.ethernet.dst_addr: exact @name("dst_addr");
            hdr.vlan.vlan_id: exact @name("vlan_id");
        }
        actions = { route; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    action set_next_hop(mac_address_t src_addr, mac_address_t dst_addr, vlan_id_t vlan_id) {
        hdr.ethernet.src_addr = src_addr;
        hdr.ethernet.dst_addr = dst_addr;
        hdr.vlan.vlan_id = vlan_id;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // Written by routing. A miss drops.
    table routes {
        key = { hdr.ipv4.dst_addr: lpm @name("dst_addr"); }
        actions = { set_next_hop; @defaultonly drop; }
        const default_action = drop();
        size = 2048;
    }

    action forward(port_t port) { standard_metadata.egress_spec = port; }

    action flood(group_t group) { standard_metadata.mcast_grp = group; }

    // Written with `sources`. Where a station is, or the group of its VLAN's ports; a miss drops.
    table destinations {
        key = {
            hdr.ethernet.dst_addr: exact @name("dst_addr");
            hdr.vlan.vlan_id: exact @name("vlan_id");
        }
        actions = { forward; flood; drop; }
        const default_action = drop();
        size = 4096;
    }

    apply {
        if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (!vlan_ingress.apply().hit) {
            exit;
        }
        sources.apply();
        if (routable.apply().hit && hdr.ipv4.isValid()) {
            if (hdr.ipv4.ttl <= 1) {
                drop();
                exit;
            }
            if (!routes.apply().hit) {
                exit;
            }
            if (hdr.ipv4.ihl != 5) {
                update_checksum_with_options(hdr.ipv4);
            }
        }
        destinations.apply();
    }
}

control VlanRouterEgress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action strip_tag() {
        hdr.ethernet.ether_type = hdr.vlan.ether_type;
        hdr.vlan.setInvalid();
    }

    // Ports that frames leave without a tag. A miss keeps it.
    table vlan_egress {
        key = { standard_metadata.egress_port: exact @name("port"); }
        actions = { strip_tag; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    action prune() { mark_to_drop(standard_metadata); }

    // No frame leaves by the port that it came from: an entry for each port.
    table source_pruning {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            standard_metadata.egress_port: exact @name("egress_port");
        }
        actions = { prune; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    apply {
        if (hdr.vlan.isValid()) {
            vlan_egress.apply();
        }
        source_pruning.apply();
    }
}

control VlanRouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

#endif
