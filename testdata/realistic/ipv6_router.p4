// An IPv6 router: extension headers are read over, hop limits count down, groups are replicated.
#include "include/headers.p4"

const bit<8> HOP_BY_HOP = 0;
const bit<8> FRAGMENT = 44;
const bit<8> DESTINATION_OPTIONS = 60;
const bit<8> ICMPV6 = 58;
const bit<8> NEIGHBOUR_SOLICITATION = 135;

error { HopByHopNotFirst }

// Hop-by-hop and destination options, and routing headers: 8 bytes and 8 for each of hdr_ext_len.
header extension_t {
    bit<8>        next_header;
    bit<8>        hdr_ext_len;
    bit<48>       first;
    varbit<512>   rest;
}

header transport_t {
    bit<16> src_port;
    bit<16> dst_port;
}

struct headers_t {
    ethernet_t     ethernet;
    ipv6_t         ipv6;
    extension_t[3] extensions;
    transport_t    transport;
    icmp_t         icmpv6;
}

struct metadata_t {
    bit<8>      upper_layer;
    ipv6_addr_t next_hop;
    bit<2>      n_extensions;
}

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        meta.n_extensions = 0;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.upper_layer = hdr.ipv6.next_header;
        transition select(hdr.ipv6.next_header) {
            HOP_BY_HOP: parse_extension;
            default: parse_next;
        }
    }

    state parse_next {
        transition select(meta.upper_layer) {
            HOP_BY_HOP: misplaced;
            PROTOCOL_ROUTING: parse_extension;
            DESTINATION_OPTIONS: parse_extension;
            PROTOCOL_TCP: parse_transport;
            PROTOCOL_UDP: parse_transport;
            ICMPV6: parse_icmpv6;
            default: accept;
        }
    }

    state parse_extension {
        bit<16> ahead = packet.lookahead<bit<16>>();
        packet.extract(hdr.extensions.next, (bit<32>) ahead[7:0] << 6);
        meta.upper_layer = hdr.extensions.last.next_header;
        meta.n_extensions = meta.n_extensions + 1;
        transition parse_next;
    }

    state misplaced {
        verify(false, error.HopByHopNotFirst);
        transition accept;
    }

    state parse_transport {
        packet.extract(hdr.transport);
        transition accept;
    }

    state parse_icmpv6 {
        packet.extract(hdr.icmpv6);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control RouterIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets) by_route;

    action drop() { mark_to_drop(standard_metadata); }

    action punt() { standard_metadata.egress_spec = CPU_PORT; }

    action via(port_id_t port, ipv6_addr_t next_hop) {
        by_route.count();
        standard_metadata.egress_spec = port;
        meta.next_hop = next_hop;
    }

    action connected(port_id_t port) {
        by_route.count();
        standard_metadata.egress_spec = port;
        meta.next_hop = hdr.ipv6.dst_addr;
    }

    // Written by routing; a miss drops.
    table routes {
        key = { hdr.ipv6.dst_addr: lpm; }
        actions = { via; connected; punt; drop; }
        default_action = drop();
        counters = by_route;
        size = 4096;
    }

    action set_destination(mac_addr_t mac) { hdr.ethernet.dst_addr = mac; }

    table neighbours {
        key = { meta.next_hop: exact; }
        actions = { set_destination; punt; }
        default_action = punt();
        size = 4096;
    }

    action replicate(bit<16> group) { standard_metadata.mcast_grp = group; }

    // Groups by source, or by any source; a miss drops.
    table groups {
        key = {
            hdr.ipv6.dst_addr: exact;
            hdr.ipv6.src_addr: optional;
        }
        actions = { replicate; drop; }
        default_action = drop();
        size = 256;
    }

    // What upper layers may pass, the operator's word.
    table filter {
        key = {
            meta.upper_layer: ternary;
            hdr.transport.dst_port: range;
            hdr.ipv6.src_addr: ternary;
        }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 128;
    }

    apply {
        if (!hdr.ipv6.isValid() || standard_metadata.parser_error != error.NoError) {
            drop();
            exit;
        }
        // Neighbour discovery is the control plane's.
        if (hdr.icmpv6.isValid() && hdr.icmpv6.type == NEIGHBOUR_SOLICITATION) {
            punt();
            exit;
        }
        // Link-local addresses stay on the link.
        if (hdr.ipv6.src_addr[127:118] == 0x3fa || hdr.ipv6.dst_addr[127:118] == 0x3fa) {
            drop();
            exit;
        }
        if (hdr.ipv6.hop_limit <= 1) {
            punt();
            exit;
        }
        switch (filter.apply().action_run) {
            drop: { exit; }
        }
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        if (hdr.ipv6.dst_addr[127:120] == 0xff) {
            groups.apply();
            return;
        }
        switch (routes.apply().action_run) {
            via:
            connected: { neighbours.apply(); }
            default: { }
        }
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action set_source(mac_addr_t mac) { hdr.ethernet.src_addr = mac; }

    table port_addresses {
        key = { standard_metadata.egress_port: exact; }
        actions = { set_source; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (standard_metadata.egress_port == CPU_PORT) { return; }
        if (hdr.ipv6.dst_addr[127:120] == 0xff) {
            if (standard_metadata.egress_port == standard_metadata.ingress_port) {
                mark_to_drop(standard_metadata);
                return;
            }
            // RFC 2464, section 7.
            hdr.ethernet.dst_addr = 16w0x3333 ++ hdr.ipv6.dst_addr[31:0];
        }
        port_addresses.apply();
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(RouterParser(), NoChecksum(), RouterIngress(), RouterEgress(), NoChecksum(),
         RouterDeparser()) main;
