// Classifies a packet when it arrives from a port: whether it is whole and valid, whether it is for
// the switch, and whether the switch answers it as a station of its network.
#ifndef CONFERENCE_ARRIVAL_P4
#define CONFERENCE_ARRIVAL_P4

#include <core.p4>
#include <v1model.p4>
#include "conference_headers.p4"
#include "conference_verdict.p4"

// Reads the headers, ingress_port, packet_length, parser_error and checksum_error. Writes `verdict` (here SERVE only
// means that the packet is a whole datagram to the port for media, with a TTL above 1), the sender's address in
// `source`, and, if the packet is for the switch, `own_mac`, the switch's MAC on this port. Removes the tag of VLAN 0.
control ConferenceArrival(
    inout conference_headers_t hdr,
    inout conference_verdict_t verdict,
    inout mac_address_t own_mac,
    inout ipv6_address_t source,
    inout standard_metadata_t standard_metadata
) {
    ipv6_address_t address = 0;
    bool addressed = false;
    udp_port_t media_port = 0;
    bit<32> link_len_bytes = ETHERNET_LEN_BYTES;
    bit<16> payload_len_bytes = 0;

    action set_own_mac(mac_address_t mac, udp_port_t udp_port) {
        own_mac = mac;
        media_port = udp_port;
    }

    // The controller writes the switch's own addresses on each port (an IPv4 address as ::ffff:a.b.c.d), and the UDP
    // port for media. A hit means that the packet is for the switch.
    table own_addresses {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            address: exact @name("address");
        }
        actions = { set_own_mac; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        verdict = conference_verdict_t.SERVE;
        own_mac = 0;
        source = 0;
        if (hdr.vlan_tag.isValid() && hdr.vlan_tag.vlan_id == 0) {
            // IEEE 802.1Q, "priority-tagged frame": treated as untagged.
            link_len_bytes = ETHERNET_LEN_BYTES + VLAN_TAG_LEN_BYTES;
            hdr.ethernet.ether_type = hdr.vlan_tag.ether_type;
            hdr.vlan_tag.setInvalid();
        }
        if (hdr.ipv4.isValid()) {
            address = IPV4_MAPPED ++ hdr.ipv4.dst_addr;
            source = IPV4_MAPPED ++ hdr.ipv4.src_addr;
            payload_len_bytes = hdr.ipv4.total_length - IPV4_LEN_BYTES;
        } else if (hdr.ipv6.isValid()) {
            address = hdr.neighbour.isValid() ? hdr.neighbour.target : hdr.ipv6.dst_addr;
            source = hdr.ipv6.src_addr;
            payload_len_bytes = hdr.ipv6.payload_length;
        } else if (hdr.arp.isValid()) {
            address = IPV4_MAPPED ++ hdr.arp.target_protocol_addr;
        }
        addressed = own_addresses.apply().hit;

        if (standard_metadata.parser_error != error.NoError) {
            verdict = conference_verdict_t.DROP_TRUNCATED;
        } else if (hdr.arp.isValid()) {
            verdict = conference_verdict_t.DROP_ARP;
            if (
                addressed
                && hdr.arp.hardware_type == ARP_HARDWARE_ETHERNET
                && hdr.arp.protocol_type == ETHER_TYPE_IPV4
                && hdr.arp.hardware_len == 6
                && hdr.arp.protocol_len == 4
                && hdr.arp.operation == ARP_REQUEST
            ) {
                verdict = conference_verdict_t.ANSWER_ARP;
            }
        } else if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) {
            verdict = conference_verdict_t.DROP_NOT_IP;
            if (
                hdr.ethernet.ether_type == ETHER_TYPE_VLAN
                || hdr.ethernet.ether_type == ETHER_TYPE_SERVICE_VLAN
            ) {
                verdict = conference_verdict_t.DROP_VLAN;
            }
        } else if (
            hdr.ipv4.isValid()
                && (
                    hdr.ipv4.version != 4
                    || hdr.ipv4.ihl < 5
                    || hdr.ipv4.total_length < (bit<16>) hdr.ipv4.ihl * 4
                    || standard_metadata.packet_length
                        < link_len_bytes + (bit<32>) hdr.ipv4.total_length
                )
            || hdr.ipv6.isValid()
                && (
                    hdr.ipv6.version != 6
                    || standard_metadata.packet_length
                        < link_len_bytes
                            + (bit<32>) IPV6_LEN_BYTES
                            + (bit<32>) hdr.ipv6.payload_length
                )
        ) {
            verdict = conference_verdict_t.DROP_MALFORMED_IP;
        } else if (!addressed) {
            verdict = conference_verdict_t.DROP_NOT_FOR_US;
        } else if (hdr.neighbour.isValid()) {
            // A solicitation is sent to the address itself, or to the multicast address that belongs to it. A host that
            // is about to take an address gets no answer; it sends from ::, and without the option.
            verdict = conference_verdict_t.DROP_NOT_FOR_US;
            if (
                hdr.ipv6.hop_limit == ND_HOP_LIMIT
                && hdr.neighbour.option_type == ND_SOURCE_LINK_ADDRESS
                && hdr.neighbour.option_len == 1
                && source != 0
            ) {
                verdict = conference_verdict_t.ANSWER_NEIGHBOUR;
            }
        } else if (hdr.ethernet.dst_addr != own_mac) {
            verdict = conference_verdict_t.DROP_NOT_FOR_US;
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ihl != 5) {
            verdict = conference_verdict_t.DROP_IPV4_OPTIONS;
        } else if (standard_metadata.checksum_error == 1) {
            verdict = conference_verdict_t.DROP_IPV4_CHECKSUM;
        } else if (
            hdr.ipv4.isValid() && (hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0)
            || hdr.ipv6.isValid() && hdr.ipv6.next_header == PROTOCOL_FRAGMENT
        ) {
            verdict = conference_verdict_t.DROP_FRAGMENT;
        } else if (
            hdr.icmp.isValid()
            && hdr.icmp.type == (hdr.ipv4.isValid() ? ICMP_ECHO_REQUEST : ICMPV6_ECHO_REQUEST)
            && hdr.icmp.code == 0
            && payload_len_bytes >= 4
        ) {
            verdict = conference_verdict_t.ANSWER_ECHO;
        } else if (!hdr.udp.isValid()) {
            verdict = conference_verdict_t.DROP_NOT_UDP;
        } else if (hdr.udp.length < UDP_LEN_BYTES || hdr.udp.length > payload_len_bytes) {
            verdict = conference_verdict_t.DROP_UDP_LENGTH;
        } else if (hdr.ipv6.isValid() && hdr.udp.checksum == 0) {
            verdict = conference_verdict_t.DROP_UDP_CHECKSUM;
        } else if (
            hdr.ipv4.isValid() && hdr.ipv4.ttl <= 1 || hdr.ipv6.isValid() && hdr.ipv6.hop_limit <= 1
        ) {
            verdict = conference_verdict_t.DROP_TTL_EXPIRED;
        } else if (hdr.udp.dst_port != media_port) {
            verdict = conference_verdict_t.DROP_OTHER_UDP_PORT;
        }
    }
}

#endif
