// Segment routing over IPv6 (RFC 8754, RFC 8986): End, End.X, End.DT6 and encapsulation by H.Encaps.
#include "include/headers.p4"

#define MAX_SEGMENTS 4
const bit<8> ROUTING_TYPE_SRH = 4;

header srh_t {
    bit<8>  next_header;
    bit<8>  hdr_ext_len;
    bit<8>  routing_type;
    bit<8>  segments_left;
    bit<8>  last_entry;
    bit<8>  flags;
    bit<16> tag;
}

header segment_t {
    ipv6_addr_t address;
}

struct headers_t {
    ethernet_t              ethernet;
    ipv6_t                  ipv6;
    srh_t                   srh;
    segment_t[MAX_SEGMENTS] segments;
    ipv6_t                  inner_ipv6;
}

struct metadata_t {
    ipv6_addr_t next_hop;
    bit<8>      n_to_parse;
    bool        is_local;
}

error { BadSegmentRoutingHeader }

parser EndpointParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_ROUTING: parse_srh;
            default: accept;
        }
    }

    state parse_srh {
        packet.extract(hdr.srh);
        verify(hdr.srh.routing_type == ROUTING_TYPE_SRH, error.BadSegmentRoutingHeader);
        verify(hdr.srh.last_entry < MAX_SEGMENTS, error.BadSegmentRoutingHeader);
        verify(hdr.srh.segments_left <= hdr.srh.last_entry, error.BadSegmentRoutingHeader);
        verify(hdr.srh.hdr_ext_len == (hdr.srh.last_entry + 1) << 1, error.BadSegmentRoutingHeader);
        meta.n_to_parse = hdr.srh.last_entry + 1;
        transition parse_segment;
    }

    state parse_segment {
        packet.extract(hdr.segments.next);
        meta.n_to_parse = meta.n_to_parse - 1;
        transition select(meta.n_to_parse) {
            0: parse_inner;
            default: parse_segment;
        }
    }

    state parse_inner {
        transition select(hdr.srh.next_header) {
            PROTOCOL_IPV6: parse_inner_ipv6;
            default: accept;
        }
    }

    state parse_inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

// What a local segment does. Reads and writes srh, segments, ipv6; writes next_hop.
control LocalSegments(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets) by_segment;

    action drop() { mark_to_drop(standard_metadata); }

    action advance_segment() {
        hdr.srh.segments_left = hdr.srh.segments_left - 1;
        hdr.ipv6.dst_addr = hdr.segments[hdr.srh.segments_left].address;
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
    }

    action end() {
        by_segment.count();
        advance_segment();
        meta.next_hop = hdr.ipv6.dst_addr;
    }

    action end_x(ipv6_addr_t next_hop) {
        by_segment.count();
        advance_segment();
        meta.next_hop = next_hop;
    }

    action end_dt6() {
        hdr.ipv6 = hdr.inner_ipv6;
        hdr.inner_ipv6.setInvalid();
        hdr.srh.setInvalid();
        hdr.segments.pop_front(MAX_SEGMENTS);
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        meta.next_hop = hdr.ipv6.dst_addr;
    }

    // Segments with another one after them. A miss is no segment of ours.
    table segments {
        key = { hdr.ipv6.dst_addr: exact; }
        actions = { end; end_x; NoAction; }
        default_action = NoAction();
        counters = by_segment;
        size = 256;
    }

    // Segments where the path ends and the packet inside comes out.
    table last_segments {
        key = { hdr.ipv6.dst_addr: exact; }
        actions = { end_dt6; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        if (!hdr.srh.isValid()) {
            return;
        }
        if (hdr.srh.segments_left != 0) {
            if (segments.apply().hit) { meta.is_local = true; }
        } else if (hdr.inner_ipv6.isValid()) {
            if (last_segments.apply().hit) { meta.is_local = true; }
        }
    }
}

// H.Encaps with two segments: the last one to visit is segments[0].
control Headend(inout headers_t hdr, out bool is_encapsulated, in standard_metadata_t standard_metadata) {
    action encapsulate(ipv6_addr_t src, ipv6_addr_t first, ipv6_addr_t second) {
        is_encapsulated = true;
        hdr.inner_ipv6 = hdr.ipv6;
        hdr.inner_ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        hdr.ipv6.next_header = PROTOCOL_ROUTING;
        hdr.ipv6.payload_length = hdr.inner_ipv6.payload_length + 40 + 8 + 32;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src_addr = src;
        hdr.ipv6.dst_addr = first;
        hdr.srh.setValid();
        hdr.srh = { PROTOCOL_IPV6, 4, ROUTING_TYPE_SRH, 1, 1, 0, 0 };
        hdr.segments[0].setValid();
        hdr.segments[0].address = second;
        hdr.segments[1].setValid();
        hdr.segments[1].address = first;
    }

    table policies {
        key = {
            hdr.ipv6.dst_addr: lpm;
            standard_metadata.ingress_port: exact;
        }
        actions = { encapsulate; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        is_encapsulated = false;
        policies.apply();
    }
}

control EndpointIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    LocalSegments() local_segments;
    Headend() headend;

    action drop() { mark_to_drop(standard_metadata); }

    action forward(port_id_t port, mac_addr_t src, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src;
        hdr.ethernet.dst_addr = dst;
    }

    table routes {
        key = { meta.next_hop: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (!hdr.ipv6.isValid() || standard_metadata.parser_error != error.NoError
                || hdr.ipv6.hop_limit <= 1) {
            drop();
            exit;
        }
        meta.is_local = false;
        local_segments.apply(hdr, meta, standard_metadata);
        if (!meta.is_local) {
            bool is_encapsulated = false;
            if (!hdr.srh.isValid()) { headend.apply(hdr, is_encapsulated, standard_metadata); }
            if (!is_encapsulated) { hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1; }
            meta.next_hop = hdr.ipv6.dst_addr;
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control EndpointDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(EndpointParser(), NoChecksum(), EndpointIngress(), NoEgress(), NoChecksum(),
         EndpointDeparser()) main;
