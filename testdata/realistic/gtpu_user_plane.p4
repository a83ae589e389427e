// A mobile network's user plane function: uplink packets come out of GTP-U (3GPP TS 29.281), downlink
// ones go in, by sessions, packet detection and forwarding rules (TS 29.244) and quotas.
#include "include/headers.p4"

#define MAX_RULES 1024
const bit<16> GTPU_PORT = 2152;
const bit<8> GTPU_GPDU = 255;
const bit<8> GTPU_ECHO_REQUEST = 1;
const bit<8> GTPU_ECHO_RESPONSE = 2;
const bit<8> PDU_SESSION_CONTAINER = 0x85;

header gtpu_t {
    bit<3>  version;
    bit<1>  protocol_type;
    bit<1>  reserved;
    bit<1>  has_extension;
    bit<1>  has_sequence;
    bit<1>  has_npdu;
    bit<8>  message_type;
    bit<16> length;
    bit<32> teid;
}

header gtpu_options_t {
    bit<16> sequence;
    bit<8>  npdu;
    bit<8>  next_extension;
}

header pdu_session_t {
    bit<8> length_words;
    bit<4> pdu_type;
    bit<4> spare;
    bit<2> spare2;
    bit<6> qfi;
    bit<8> next_extension;
}

struct headers_t {
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    udp_t          udp;
    gtpu_t         gtpu;
    gtpu_options_t gtpu_options;
    pdu_session_t  pdu_session;
    ipv4_t         inner_ipv4;
    udp_t          inner_udp;
}

enum bit<2> Direction {
    UNKNOWN = 0,
    UPLINK = 1,
    DOWNLINK = 2
}

struct metadata_t {
    Direction direction;
    bit<32>   session;
    bit<32>   teid;
    bit<16>   far;
    bit<16>   rule;
    bit<6>    qfi;
    ipv4_addr_t ue_addr;
    ipv4_addr_t remote_addr;
    bit<8>    protocol;
    bit<16>   remote_port;
    bit<1>    needs_decap;
}

parser UpfParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
            GTPU_PORT: parse_gtpu;
            default: accept;
        }
    }

    state parse_gtpu {
        packet.extract(hdr.gtpu);
        transition select(hdr.gtpu.version, hdr.gtpu.has_extension, hdr.gtpu.has_sequence, hdr.gtpu.has_npdu) {
            (1, 0, 0, 0): parse_payload;
            (1, _, _, _): parse_options;
            default: accept;
        }
    }

    state parse_options {
        packet.extract(hdr.gtpu_options);
        transition select(hdr.gtpu.has_extension, hdr.gtpu_options.next_extension) {
            (1, PDU_SESSION_CONTAINER): parse_pdu_session;
            (1, 1 .. 0xff): accept;
            default: parse_payload;
        }
    }

    state parse_pdu_session {
        packet.extract(hdr.pdu_session);
        transition select(hdr.pdu_session.length_words, hdr.pdu_session.next_extension) {
            (1, 0): parse_payload;
            default: accept;
        }
    }

    state parse_payload {
        transition select(hdr.gtpu.message_type) {
            GTPU_GPDU: parse_inner_ipv4;
            default: accept;
        }
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_UDP: parse_inner_udp;
            default: accept;
        }
    }

    state parse_inner_udp {
        packet.extract(hdr.inner_udp);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// Which session and which rule? Writes direction, session, rule, far, qfi.
control PacketDetection(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    action uplink_session(bit<32> session) {
        meta.direction = Direction.UPLINK;
        meta.session = session;
        meta.needs_decap = 1;
    }

    action downlink_session(bit<32> session) {
        meta.direction = Direction.DOWNLINK;
        meta.session = session;
    }

    // By the tunnel's end, which is ours.
    table uplink_sessions {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.gtpu.teid: exact;
        }
        actions = { uplink_session; NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    // By the user equipment's address.
    table downlink_sessions {
        key = { hdr.ipv4.dst_addr: exact; }
        actions = { downlink_session; NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    action set_rule(bit<16> rule, bit<16> far, bit<6> qfi) {
        meta.rule = rule;
        meta.far = far;
        meta.qfi = qfi;
    }

    // The session's packet detection rules by precedence.
    table detection_rules {
        key = {
            meta.session: exact;
            meta.direction: exact;
            meta.remote_addr: ternary;
            meta.protocol: ternary;
            meta.remote_port: range;
        }
        actions = { set_rule; NoAction; }
        default_action = NoAction();
        size = MAX_RULES;
    }

    apply {
        if (hdr.inner_ipv4.isValid()) {
            uplink_sessions.apply();
            meta.ue_addr = hdr.inner_ipv4.src_addr;
            meta.remote_addr = hdr.inner_ipv4.dst_addr;
            meta.protocol = hdr.inner_ipv4.protocol;
            meta.remote_port = hdr.inner_udp.isValid() ? hdr.inner_udp.dst_port : 0;
        } else if (!hdr.gtpu.isValid()) {
            downlink_sessions.apply();
            meta.ue_addr = hdr.ipv4.dst_addr;
            meta.remote_addr = hdr.ipv4.src_addr;
            meta.protocol = hdr.ipv4.protocol;
            meta.remote_port = hdr.udp.isValid() ? hdr.udp.src_port : 0;
        }
        meta.rule = 0;
        if (meta.direction != Direction.UNKNOWN) { detection_rules.apply(); }
    }
}

// What the rule says: forwards, tunnels, or drops. Writes the headers and egress_spec.
control ForwardingAction(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }

    action buffer() { standard_metadata.egress_spec = CPU_PORT; }

    action forward(port_id_t port, mac_addr_t src, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src;
        hdr.ethernet.dst_addr = dst;
    }

    action tunnel(port_id_t port, mac_addr_t src, mac_addr_t dst, bit<32> teid,
                  ipv4_addr_t own_addr, ipv4_addr_t gnb_addr) {
        forward(port, src, dst);
        hdr.inner_ipv4 = hdr.ipv4;
        hdr.inner_udp = hdr.udp;
        hdr.udp.setValid();
        hdr.udp = { GTPU_PORT, GTPU_PORT, hdr.ipv4.total_length + 24, 0 };
        hdr.gtpu.setValid();
        hdr.gtpu = { 1, 1, 0, 1, 0, 0, GTPU_GPDU, hdr.ipv4.total_length + 8, teid };
        hdr.gtpu_options.setValid();
        hdr.gtpu_options = { 0, 0, PDU_SESSION_CONTAINER };
        hdr.pdu_session.setValid();
        hdr.pdu_session = { 1, 0, 0, 0, meta.qfi, 0 };
        hdr.ipv4.total_length = hdr.ipv4.total_length + 44;
        hdr.ipv4.src_addr = own_addr;
        hdr.ipv4.dst_addr = gnb_addr;
        hdr.ipv4.protocol = PROTOCOL_UDP;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.identification = 0;
    }

    table forwarding_actions {
        key = {
            meta.session: exact;
            meta.far: exact;
        }
        actions = { forward; tunnel; buffer; drop; }
        default_action = drop();
        size = MAX_RULES;
    }

    apply { forwarding_actions.apply(); }
}

control UpfIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    PacketDetection() packet_detection;
    ForwardingAction() forwarding_action;
    counter(MAX_RULES, CounterType.packets_and_bytes) usage;
    register<bit<32>>(MAX_RULES) quotas;

    action drop() { mark_to_drop(standard_metadata); }

    // The path's end is alive (TS 29.281, section 7.2).
    action answer_echo() {
        ipv4_addr_t peer = hdr.ipv4.src_addr;
        mac_addr_t peer_mac = hdr.ethernet.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = peer;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = peer_mac;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = GTPU_PORT;
        hdr.udp.checksum = 0;
        hdr.gtpu.message_type = GTPU_ECHO_RESPONSE;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (hdr.gtpu.isValid() && hdr.gtpu.message_type == GTPU_ECHO_REQUEST) {
            answer_echo();
            exit;
        }
        packet_detection.apply(hdr, meta, standard_metadata);
        if (meta.rule == 0) {
            drop();
            exit;
        }
        // The quota is in bytes of the user's packet, and rule 0 has none.
        bit<32> left;
        bit<32> length = hdr.inner_ipv4.isValid() ? (bit<32>) hdr.inner_ipv4.total_length
                                                  : (bit<32>) hdr.ipv4.total_length;
        quotas.read(left, (bit<32>) meta.rule);
        if (left < length) {
            drop();
            exit;
        }
        quotas.write((bit<32>) meta.rule, left - length);
        usage.count((bit<32>) meta.rule);
        if (meta.needs_decap == 1) {
            hdr.ipv4 = hdr.inner_ipv4;
            hdr.udp = hdr.inner_udp;
            hdr.inner_ipv4.setInvalid();
            hdr.inner_udp.setInvalid();
            hdr.gtpu.setInvalid();
            hdr.gtpu_options.setInvalid();
            hdr.pdu_session.setInvalid();
        }
        forwarding_action.apply(hdr, meta, standard_metadata);
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control UpfDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(UpfParser(), VerifyIpv4(), UpfIngress(), NoEgress(), UpdateIpv4(), UpfDeparser()) main;
