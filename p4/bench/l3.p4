// An IPv4 router, for the pipeline benchmark: the longest matching prefix gives the next hop, and
// the next hop gives the output port and the Ethernet addresses of the outgoing frame.
//
//   Ethernet, IPv4 -> checksum right, TTL left -> routes -> next_hops -> leaves

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

typedef bit<16> next_hop_t;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {
    next_hop_t next_hop;
}

#include "ipv4_checksum.p4"

parser L3Parser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control L3Ingress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action drop() { mark_to_drop(standard_metadata); }

    action set_next_hop(next_hop_t next_hop) { meta.next_hop = next_hop; }

    // The routing protocol writes the entries. A miss drops the packet.
    table routes {
        key = { hdr.ipv4.dst_addr: lpm @name("dst_addr"); }
        actions = { set_next_hop; @defaultonly drop; }
        const default_action = drop();
        size = 131072;
    }

    action rewrite(port_t port, mac_address_t src_addr, mac_address_t dst_addr) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src_addr;
        hdr.ethernet.dst_addr = dst_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // The controller writes an entry when a neighbour is known. A miss drops the packet.
    table next_hops {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { rewrite; @defaultonly drop; }
        const default_action = drop();
        size = 16384;
    }

    apply {
        if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
            if (routes.apply().hit) {
                if (next_hops.apply().hit && hdr.ipv4.ihl != 5) {
                    update_checksum_with_options(hdr.ipv4);
                }
            }
        } else {
            drop();
        }
    }
}

control L3Egress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    apply { }
}

control L3Deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(L3Parser(), VerifyIpv4(), L3Ingress(), L3Egress(), UpdateIpv4(), L3Deparser()) main;
