// Differentiated services (RFC 2474, RFC 4594): classifies at untrusted ports, keeps the marking of
// trusted ones, chooses the queue, marks congestion (RFC 3168) and copies the class to the VLAN tag.
#include "include/headers.p4"

const bit<2> NOT_ECT = 0;
const bit<2> CE = 3;

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    udp_t      udp;
}

struct metadata_t {
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> dst_port;
    bit<8>  protocol;
    bool    is_trusted;
}

parser MarkerParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.dscp = hdr.ipv4.dscp;
        meta.ecn = hdr.ipv4.ecn;
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.dscp = hdr.ipv6.traffic_class[7:2];
        meta.ecn = hdr.ipv6.traffic_class[1:0];
        meta.protocol = hdr.ipv6.next_header;
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.dst_port = hdr.udp.dst_port;
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

control MarkerIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter(64, CounterType.packets_and_bytes) by_class;

    action trust() { meta.is_trusted = true; }

    action distrust() { meta.is_trusted = false; }

    table port_trust {
        key = { standard_metadata.ingress_port: exact; }
        actions = { trust; distrust; }
        default_action = distrust();
        size = 64;
    }

    action set_class(bit<6> dscp) { meta.dscp = dscp; }

    // What the traffic of untrusted ports is. A miss is best effort.
    table classifier {
        key = {
            meta.protocol: ternary;
            meta.dst_port: range;
            hdr.ipv4.src_addr: ternary;
        }
        actions = { set_class; }
        default_action = set_class(0);
        size = 256;
    }

    action set_queue(bit<3> priority) { standard_metadata.priority = priority; }

    // Expedited forwarding before assured forwarding before the rest.
    table queues {
        key = { meta.dscp: ternary; }
        actions = { set_queue; }
        const default_action = set_queue(0);
        const entries = {
            46: set_queue(5);
            0b110000 &&& 0b110000: set_queue(7);
            0b100010 &&& 0b111001: set_queue(4);
            0b011010 &&& 0b111001: set_queue(3);
            0b001010 &&& 0b111001: set_queue(1);
            8: set_queue(0);
        }
    }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    action drop() { mark_to_drop(standard_metadata); }

    table destinations {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (destinations.apply().miss) { exit; }
        if (hdr.ipv4.isValid() || hdr.ipv6.isValid()) {
            port_trust.apply();
            if (!meta.is_trusted) { classifier.apply(); }
            by_class.count((bit<32>) meta.dscp);
            queues.apply();
        }
    }
}

control MarkerEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(8, CounterType.packets) congested;
    bit<19> limit = 0x7ffff;

    action set_limit(bit<19> n_packets) { limit = n_packets; }

    // From how many waiting packets on a queue is congested.
    table limits {
        key = {
            standard_metadata.egress_port: exact;
            standard_metadata.priority: exact;
        }
        actions = { set_limit; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) { return; }
        limits.apply();
        if (standard_metadata.enq_qdepth >= limit) {
            congested.count((bit<32>) standard_metadata.priority);
            if (meta.ecn == NOT_ECT) {
                mark_to_drop(standard_metadata);
                return;
            }
            meta.ecn = CE;
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.dscp = meta.dscp;
            hdr.ipv4.ecn = meta.ecn;
        } else {
            hdr.ipv6.traffic_class = meta.dscp ++ meta.ecn;
        }
        if (hdr.vlan.isValid()) { hdr.vlan.pcp = meta.dscp[5:3]; }
    }
}

control MarkerDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MarkerParser(), VerifyIpv4(), MarkerIngress(), MarkerEgress(), UpdateIpv4(), MarkerDeparser()) main;
