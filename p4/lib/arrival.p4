// Classifies a packet when it arrives from a port: whether it is whole and valid, whether it is for
// the SFU, and what the SFU has to do with it. Never applied to a recirculated packet.
#ifndef ARRIVAL_P4
#define ARRIVAL_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "verdict.p4"

// Reads the headers, ingress_port, packet_length, parser_error and checksum_error. Writes `verdict` (here SERVE only
// means that the packet is a whole UDP packet for the SFU with a TTL above 1) and, if the packet is for the SFU,
// `own_mac`, the SFU's MAC on this port. Removes the tag of VLAN 0.
control Arrival(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout mac_address_t own_mac,
    inout standard_metadata_t standard_metadata
) {
    ipv4_address_t address = 0;
    bool addressed = false;
    bit<32> link_len_bytes = ETHERNET_LEN_BYTES;

    action set_own_mac(mac_address_t mac) { own_mac = mac; }

    // Written by the controller: the SFU's own address on each port. Hit: the packet is for the
    // SFU; miss: it is not. A port usually has one address.
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
        verdict = verdict_t.SERVE;
        own_mac = 0;
        if (hdr.vlan_tag.isValid() && hdr.vlan_tag.vlan_id == 0) {
            // IEEE 802.1Q, "priority-tagged frame": treated as untagged.
            link_len_bytes = ETHERNET_LEN_BYTES + VLAN_TAG_LEN_BYTES;
            hdr.ethernet.ether_type = hdr.vlan_tag.ether_type;
            hdr.vlan_tag.setInvalid();
        }
        if (hdr.arp.isValid()) {
            address = hdr.arp.target_protocol_addr;
        } else if (hdr.ipv4.isValid()) {
            address = hdr.ipv4.dst_addr;
        }
        addressed = own_addresses.apply().hit;

        if (standard_metadata.parser_error != error.NoError) {
            verdict = verdict_t.DROP_TRUNCATED;
        } else if (hdr.arp.isValid()) {
            verdict = verdict_t.DROP_ARP;
            if (
                addressed
                && hdr.arp.hardware_type == ARP_HARDWARE_ETHERNET
                && hdr.arp.protocol_type == ETHER_TYPE_IPV4
                && hdr.arp.hardware_len == 6
                && hdr.arp.protocol_len == 4
            ) {
                if (hdr.arp.operation == ARP_REQUEST) {
                    verdict = verdict_t.ANSWER_ARP;
                } else if (hdr.arp.operation == ARP_REPLY && hdr.ethernet.dst_addr == own_mac) {
                    verdict = verdict_t.TO_CONTROLLER;
                }
            }
        } else if (!hdr.ipv4.isValid()) {
            verdict = verdict_t.DROP_NOT_IPV4;
            if (
                hdr.ethernet.ether_type == ETHER_TYPE_VLAN
                || hdr.ethernet.ether_type == ETHER_TYPE_SERVICE_VLAN
            ) {
                verdict = verdict_t.DROP_VLAN;
            }
        } else if (
            hdr.ipv4.version != 4
            || hdr.ipv4.ihl < 5
            || hdr.ipv4.total_length < (bit<16>) hdr.ipv4.ihl * 4
            || standard_metadata.packet_length < link_len_bytes + (bit<32>) hdr.ipv4.total_length
        ) {
            verdict = verdict_t.DROP_MALFORMED_IPV4;
        } else if (!addressed || hdr.ethernet.dst_addr != own_mac) {
            verdict = verdict_t.DROP_NOT_FOR_US;
        } else if (hdr.ipv4.ihl != 5) {
            verdict = verdict_t.DROP_IPV4_OPTIONS;
        } else if (standard_metadata.checksum_error == 1) {
            verdict = verdict_t.DROP_IPV4_CHECKSUM;
        } else if (hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0) {
            verdict = verdict_t.DROP_FRAGMENT;
        } else if (
            hdr.icmp.isValid()
            && hdr.icmp.type == ICMP_ECHO_REQUEST
            && hdr.icmp.code == 0
            && hdr.ipv4.total_length >= IPV4_LEN_BYTES + 4
        ) {
            verdict = verdict_t.ANSWER_ECHO;
        } else if (!hdr.udp.isValid()) {
            verdict = verdict_t.DROP_NOT_UDP;
        } else if (
            hdr.udp.length < UDP_LEN_BYTES
            || hdr.udp.length > hdr.ipv4.total_length - IPV4_LEN_BYTES
        ) {
            verdict = verdict_t.DROP_UDP_LENGTH;
        } else if (hdr.ipv4.ttl <= 1) {
            verdict = verdict_t.DROP_TTL_EXPIRED;
        }
    }
}

#endif
