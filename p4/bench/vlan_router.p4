// The common part of L2L3 (l2l3.p4) and L2L3-ACL (l2l3_acl.p4): headers, parser, deparser, and the tables that switch
// and route. The tables are those of the L2L3-ACL pipeline that PISCES is measured with (Shahbaz et al., SIGCOMM 2016,
// section 5), in their order. Inside the pipeline every frame has one VLAN tag, even if it arrives or leaves without
// one.
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

// The tables from vlan_ingress to destinations. A dropped frame skips the following tables, except
// if `destinations` dropped it.
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

    // Says which frames a port accepts, and to which VLAN frames without a tag belong. A miss drops the frame.
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

    // The controller writes an entry after a digest. A hit means that the station is known; a miss means that it is
    // new.
    table sources {
        key = { hdr.ethernet.src_addr: exact @name("src_addr"); }
        actions = { known; @defaultonly learn; }
        const default_action = learn();
        size = 4096;
    }

    action route() { }

    // Has an entry for each station that sends through the router, with the router's address in the station's VLAN.
    // After a miss the frame is switched, not routed.
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

    // The routing protocol writes the entries. A miss drops the packet.
    table routes {
        key = { hdr.ipv4.dst_addr: lpm @name("dst_addr"); }
        actions = { set_next_hop; @defaultonly drop; }
        const default_action = drop();
        size = 2048;
    }

    action forward(port_t port) { standard_metadata.egress_spec = port; }

    action flood(group_t group) { standard_metadata.mcast_grp = group; }

    // The controller writes the entries together with those of `sources`. An entry gives a station's port, or the group
    // of the VLAN's ports. A miss drops the frame.
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

    // The ports by which frames leave without a tag. A miss keeps the tag.
    table vlan_egress {
        key = { standard_metadata.egress_port: exact @name("port"); }
        actions = { strip_tag; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    action prune() { mark_to_drop(standard_metadata); }

    // Has an entry for each port, so that no frame leaves by the port where it arrived.
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
