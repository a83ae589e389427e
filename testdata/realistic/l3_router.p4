// An IPv4 router that answers ARP and echo requests for its own addresses and says ICMP Time Exceeded.
#include "include/headers.p4"

const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8>  ICMP_ECHO_REPLY = 0;
const bit<8>  ICMP_ECHO_REQUEST = 8;
const bit<8>  ICMP_TIME_EXCEEDED = 11;
// Ethernet, IPv4, ICMP, the quoted IPv4 header and eight bytes after it (RFC 792).
const bit<32> TIME_EXCEEDED_BYTES = 14 + 20 + 8 + 20 + 8;

header quote_t {
    bit<64> first_bytes;
}

struct headers_t {
    ethernet_t ethernet;
    arp_t      arp;
    ipv4_t     ipv4;
    icmp_t     icmp;
    ipv4_t     quoted_ipv4;
    quote_t    quote;
}

struct metadata_t {
    ipv4_addr_t next_hop;
    ipv4_addr_t own_address;
    mac_addr_t  own_mac;
    bool        is_for_us;
    bool        is_time_exceeded;
}

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ttl, hdr.ipv4.protocol) {
            (0 .. 1, _): parse_quote;
            (_, PROTOCOL_ICMP): parse_icmp;
            default: accept;
        }
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }

    // What an ICMP error quotes of the packet's payload.
    state parse_quote {
        packet.extract(hdr.quote);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// Answers ARP requests for the addresses of the port. Reads arp, writes it and egress_spec.
control ArpResponder(inout headers_t hdr, in metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.arp.oper != ARP_REQUEST || hdr.arp.tpa != meta.own_address) {
            mark_to_drop(standard_metadata);
            return;
        }
        hdr.ethernet.dst_addr = hdr.arp.sha;
        hdr.ethernet.src_addr = meta.own_mac;
        hdr.arp.oper = ARP_REPLY;
        hdr.arp.tha = hdr.arp.sha;
        hdr.arp.tpa = hdr.arp.spa;
        hdr.arp.sha = meta.own_mac;
        hdr.arp.spa = meta.own_address;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
}

// Sends the packet back to its sender as the quotation in an ICMP error.
control TimeExceeded(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.is_time_exceeded = true;
        hdr.quoted_ipv4 = hdr.ipv4;
        hdr.ipv4.dscp = 0x30;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.total_length = (bit<16>) TIME_EXCEEDED_BYTES - 14;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 0;
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = PROTOCOL_ICMP;
        hdr.ipv4.dst_addr = hdr.quoted_ipv4.src_addr;
        hdr.ipv4.src_addr = meta.own_address;
        hdr.icmp.setValid();
        hdr.icmp.type = ICMP_TIME_EXCEEDED;
        hdr.icmp.code = 0;
        hdr.icmp.rest_of_header = 0;
        truncate(TIME_EXCEEDED_BYTES);
    }
}

// The echo reply differs from the request in the type, so the checksum by as much (RFC 1624).
control EchoReply(inout headers_t hdr) {
    apply {
        ipv4_addr_t asked = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = asked;
        hdr.ipv4.ttl = 64;
        hdr.icmp.type = ICMP_ECHO_REPLY;
        bit<17> sum = (bit<17>) hdr.icmp.checksum + 0x0800;
        hdr.icmp.checksum = sum[15:0] + (bit<16>) sum[16:16];
    }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    ArpResponder() arp_responder;
    TimeExceeded() time_exceeded;
    EchoReply() echo_reply;

    action set_interface(ipv4_addr_t address, mac_addr_t mac) {
        meta.own_address = address;
        meta.own_mac = mac;
    }

    // The router's address on each port. A miss: no router there.
    table interfaces {
        key = { standard_metadata.ingress_port: exact; }
        actions = { set_interface; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action local() { meta.is_for_us = true; }

    table own_addresses {
        key = { hdr.ipv4.dst_addr: exact; }
        actions = { local; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action to_next_hop(ipv4_addr_t next_hop, port_id_t port) {
        meta.next_hop = next_hop;
        standard_metadata.egress_spec = port;
    }

    action on_link(port_id_t port) {
        meta.next_hop = hdr.ipv4.dst_addr;
        standard_metadata.egress_spec = port;
    }

    action unreachable() { mark_to_drop(standard_metadata); }

    // Written by routing. A miss drops.
    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { to_next_hop; on_link; unreachable; }
        default_action = unreachable();
        size = 1024;
    }

    action set_destination(mac_addr_t mac) { hdr.ethernet.dst_addr = mac; }

    table neighbours {
        key = { meta.next_hop: exact; }
        actions = { set_destination; unreachable; }
        default_action = unreachable();
        size = 1024;
    }

    apply {
        if (!interfaces.apply().hit) {
            mark_to_drop(standard_metadata);
            exit;
        }
        if (hdr.arp.isValid()) {
            arp_responder.apply(hdr, meta, standard_metadata);
            exit;
        }
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1
                || hdr.ethernet.dst_addr != meta.own_mac) {
            mark_to_drop(standard_metadata);
            exit;
        }
        own_addresses.apply();
        if (meta.is_for_us) {
            if (!hdr.icmp.isValid() || hdr.icmp.type != ICMP_ECHO_REQUEST) {
                mark_to_drop(standard_metadata);
                exit;
            }
            echo_reply.apply(hdr);
        } else if (hdr.ipv4.ttl <= 1) {
            if (!hdr.quote.isValid()) {
                mark_to_drop(standard_metadata);
                exit;
            }
            time_exceeded.apply(hdr, meta);
        } else {
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
        switch (routes.apply().action_run) {
            unreachable: { exit; }
            default: { neighbours.apply(); }
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
        if (hdr.ipv4.isValid()) { port_addresses.apply(); }
    }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    UpdateIpv4() update_ipv4;
    apply {
        update_ipv4.apply(hdr, meta);
        update_checksum(meta.is_time_exceeded,
            { hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest_of_header,
              hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.dscp, hdr.quoted_ipv4.ecn,
              hdr.quoted_ipv4.total_length, hdr.quoted_ipv4.identification, hdr.quoted_ipv4.flags,
              hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.ttl, hdr.quoted_ipv4.protocol,
              hdr.quoted_ipv4.header_checksum, hdr.quoted_ipv4.src_addr, hdr.quoted_ipv4.dst_addr,
              hdr.quote.first_bytes },
            hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(RouterParser(), VerifyIpv4(), RouterIngress(), RouterEgress(), UpdateChecksums(),
         RouterDeparser()) main;
