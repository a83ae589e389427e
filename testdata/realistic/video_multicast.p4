// Replicates RTP video to its viewers: one copy a viewer with addresses, SSRC and sequence numbers of
// its own, and for slow viewers without the upper temporal layers, whose gaps must not be seen.
#include "include/headers.p4"

#define STREAMS 64
#define VIEWERS 1024
const bit<16> RTP_PORT = 5004;
// RTCP's packet types (RFC 3550, RFC 4585).
const bit<16> RTCP_FIRST = 200;
const bit<16> RTCP_LAST = 207;

// RFC 3550, section 5.1, and the byte after it that tells the temporal layer (as VP8's payload
// descriptor or H.264's NAL extension do, simplified to one place).
header rtp_t {
    bit<2>  version;
    bit<1>  padding;
    bit<1>  extension;
    bit<4>  csrc_count;
    bit<1>  marker;
    bit<7>  payload_type;
    bit<16> sequence_number;
    bit<32> timestamp;
    bit<32> ssrc;
    bit<2>  temporal_layer;
    bit<6>  picture;
}

header rtcp_t {
    bit<2>  version;
    bit<1>  padding;
    bit<5>  count;
    bit<8>  packet_type;
    bit<16> length;
    bit<32> ssrc;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    rtp_t      rtp;
    rtcp_t     rtcp;
}

struct metadata_t {
    bit<16> stream;
    bit<32> viewer;
    bit<2>  max_layer;
}

parser VideoParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            RTP_PORT: parse_rtp_or_rtcp;
            default: accept;
        }
    }

    // Both on one port (RFC 5761): the second byte tells which.
    state parse_rtp_or_rtcp {
        transition select(packet.lookahead<bit<16>>()) {
            0x8000 + RTCP_FIRST .. 0x8000 + RTCP_LAST: parse_rtcp;
            0x8100 + RTCP_FIRST .. 0x8100 + RTCP_LAST: parse_rtcp;
            0x8000 &&& 0xc000: parse_rtp;
            default: accept;
        }
    }

    state parse_rtp {
        packet.extract(hdr.rtp);
        transition accept;
    }

    state parse_rtcp {
        packet.extract(hdr.rtcp);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

control VideoIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(STREAMS, CounterType.packets_and_bytes) received;

    action drop() { mark_to_drop(standard_metadata); }

    action replicate(bit<16> stream, bit<16> group) {
        meta.stream = stream;
        standard_metadata.mcast_grp = group;
        received.count((bit<32>) stream);
    }

    // Presenters by source and SSRC: only they may send.
    table streams {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.udp.src_port: exact;
            hdr.rtp.ssrc: exact;
        }
        actions = { replicate; drop; }
        default_action = drop();
        size = STREAMS;
    }

    action to_presenter(port_id_t port, ipv4_addr_t address, bit<16> udp_port, bit<32> ssrc, mac_addr_t mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.dst_addr = address;
        hdr.udp.dst_port = udp_port;
        hdr.rtcp.ssrc = ssrc;
        hdr.udp.checksum = 0;
    }

    // Feedback of viewers goes to the presenter of what they see.
    table feedback {
        key = { hdr.ipv4.src_addr: exact; }
        actions = { to_presenter; drop; }
        default_action = drop();
        size = VIEWERS;
    }

    apply {
        if (hdr.rtp.isValid()) {
            streams.apply();
        } else if (hdr.rtcp.isValid()) {
            feedback.apply();
        } else {
            drop();
        }
    }
}

control VideoEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    // How many packets a viewer has not got: so much lower are its sequence numbers.
    register<bit<16>>(VIEWERS) left_out;
    counter(VIEWERS, CounterType.packets) filtered;

    action drop() { mark_to_drop(standard_metadata); }

    action to_viewer(bit<32> viewer, mac_addr_t mac, ipv4_addr_t address, bit<16> udp_port,
                     bit<32> ssrc, bit<2> max_layer) {
        meta.viewer = viewer;
        meta.max_layer = max_layer;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.dst_addr = address;
        hdr.ipv4.ttl = 64;
        hdr.udp.dst_port = udp_port;
        hdr.udp.checksum = 0;
        hdr.rtp.ssrc = ssrc;
    }

    table viewers {
        key = {
            meta.stream: exact;
            standard_metadata.egress_rid: exact;
        }
        actions = { to_viewer; drop; }
        default_action = drop();
        size = VIEWERS;
    }

    apply {
        if (!hdr.rtp.isValid()) { return; }
        if (viewers.apply().miss) { return; }
        bit<16> n_left_out;
        left_out.read(n_left_out, meta.viewer);
        if (hdr.rtp.temporal_layer > meta.max_layer) {
            left_out.write(meta.viewer, n_left_out + 1);
            filtered.count(meta.viewer);
            drop();
        } else {
            hdr.rtp.sequence_number = hdr.rtp.sequence_number - n_left_out;
        }
    }
}

control VideoDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(VideoParser(), VerifyIpv4(), VideoIngress(), VideoEgress(), UpdateIpv4(), VideoDeparser()) main;
