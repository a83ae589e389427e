// A load balancer for virtual addresses: a flow's hash chooses one of the service's servers, so that
// a flow stays where it is; the servers' answers get the virtual address back.
#include "include/headers.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> service;
    bit<16> member;
    bit<16> transport_length;
    bool    is_rewritten;
}

parser BalancerParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        meta.transport_length = hdr.ipv4.total_length - 20;
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src_port;
        meta.dst_port = hdr.tcp.dst_port;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src_port;
        meta.dst_port = hdr.udp.dst_port;
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

control BalancerIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    counter(256, CounterType.packets_and_bytes) by_member;

    action drop() { mark_to_drop(standard_metadata); }

    // first is the service's first row in `members`, n_members a number above 0.
    action choose(bit<16> service, bit<16> first, bit<16> n_members) {
        meta.service = service;
        hash(meta.member, HashAlgorithm.crc16, first,
             { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, meta.src_port, meta.dst_port },
             n_members);
    }

    // Virtual addresses. A miss is no service of ours and is routed.
    table services {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.ipv4.protocol: exact;
            meta.dst_port: exact;
        }
        actions = { choose; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action to_server(ipv4_addr_t server) {
        hdr.ipv4.dst_addr = server;
        meta.is_rewritten = true;
        by_member.count((bit<32>) meta.member);
    }

    table members {
        key = { meta.member: exact; }
        actions = { to_server; drop; }
        default_action = drop();
        size = 256;
    }

    action from_service(ipv4_addr_t address) {
        hdr.ipv4.src_addr = address;
        meta.is_rewritten = true;
    }

    // The answers of servers.
    table servers {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.ipv4.protocol: exact;
            meta.src_port: exact;
        }
        actions = { from_service; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    action forward(port_id_t port, mac_addr_t src, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src;
        hdr.ethernet.dst_addr = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2 || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (services.apply().hit) {
            if (members.apply().miss) { exit; }
        } else {
            servers.apply();
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

// The address is in the transport's pseudo header.
control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    UpdateIpv4() update_ipv4;
    apply {
        update_ipv4.apply(hdr, meta);
        update_checksum_with_payload(meta.is_rewritten && hdr.tcp.isValid(),
            { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w0, hdr.ipv4.protocol, meta.transport_length,
              hdr.tcp.src_port, hdr.tcp.dst_port, hdr.tcp.seq_no, hdr.tcp.ack_no, hdr.tcp.data_offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent_pointer },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.is_rewritten && hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w0, hdr.ipv4.protocol, meta.transport_length,
              hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control BalancerDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(BalancerParser(), VerifyIpv4(), BalancerIngress(), NoEgress(), UpdateChecksums(),
         BalancerDeparser()) main;
