// The switch as a station of its network: it answers ARP requests, neighbour solicitations and echo requests for its
// own addresses. It also answers hellos (the datagrams with which a host signs in a socket) of sockets that are signed
// in already. Other hellos go to the controller.
#ifndef CONFERENCE_ANSWER_P4
#define CONFERENCE_ANSWER_P4

#include <core.p4>
#include <v1model.p4>
#include "conference_headers.p4"
#include "conference_verdict.p4"
#include "checksum.p4"

// Returns the one's complement sum of an IPv6 address' 16-bit words, not yet folded. For the sum of the words'
// complements, a caller passes `~address`.
bit<32> words_of(in ipv6_address_t address) {
    return (bit<32>) address[127:112]
        + (bit<32>) address[111:96]
        + (bit<32>) address[95:80]
        + (bit<32>) address[79:64]
        + (bit<32>) address[63:48]
        + (bit<32>) address[47:32]
        + (bit<32>) address[31:16]
        + (bit<32>) address[15:0];
}

bit<32> mac_delta(in mac_address_t old_mac, in mac_address_t new_mac) {
    return word_delta(old_mac[47:32], new_mac[47:32])
        + word_delta(old_mac[31:16], new_mac[31:16])
        + word_delta(old_mac[15:0], new_mac[15:0]);
}

// Reads `verdict` and `own_mac`. For a packet to answer, writes the headers and egress_spec.
control ConferenceAnswer(
    inout conference_headers_t hdr,
    inout conference_verdict_t verdict,
    inout mac_address_t own_mac,
    inout standard_metadata_t standard_metadata
) {
    // RFC 826, "Packet Reception"
    action answer_arp_request() {
        ipv4_address_t own_address = hdr.arp.target_protocol_addr;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_hardware_addr = hdr.arp.sender_hardware_addr;
        hdr.arp.target_protocol_addr = hdr.arp.sender_protocol_addr;
        hdr.arp.sender_hardware_addr = own_mac;
        hdr.arp.sender_protocol_addr = own_address;
    }

    // RFC 4861, section 7.2.4. The checksum also covers the addresses of the IPv6 header. The sender's address stays in
    // the sum, and the target's address replaces the solicitation's destination.
    action answer_neighbour_solicitation() {
        hdr.icmp.checksum = updated_checksum(
            hdr.icmp.checksum,
            words_of(~hdr.ipv6.dst_addr)
            + words_of(hdr.neighbour.target)
            + word_delta(NEIGHBOUR_SOLICITATION ++ 8w0, NEIGHBOUR_ADVERTISEMENT ++ 8w0)
            + word_delta(hdr.neighbour.flags[31:16], ND_SOLICITED_OVERRIDE[31:16])
            + word_delta(hdr.neighbour.flags[15:0], ND_SOLICITED_OVERRIDE[15:0])
            + word_delta(ND_SOURCE_LINK_ADDRESS ++ 8w1, ND_TARGET_LINK_ADDRESS ++ 8w1)
            + mac_delta(hdr.neighbour.link_address, own_mac)
        );
        hdr.icmp.type = NEIGHBOUR_ADVERTISEMENT;
        hdr.neighbour.flags = ND_SOLICITED_OVERRIDE;
        hdr.neighbour.option_type = ND_TARGET_LINK_ADDRESS;
        hdr.neighbour.link_address = own_mac;
        hdr.ipv6.dst_addr = hdr.ipv6.src_addr;
        hdr.ipv6.src_addr = hdr.neighbour.target;
    }

    // Exchanges the addresses, which changes no checksum; only the new TTL changes the header's checksum.
    action exchange_ipv4() {
        ipv4_address_t own_address = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = own_address;
        hdr.ipv4.header_checksum = updated_checksum(
            hdr.ipv4.header_checksum,
            word_delta(hdr.ipv4.ttl ++ hdr.ipv4.protocol, DEFAULT_TTL ++ hdr.ipv4.protocol)
        );
        hdr.ipv4.ttl = DEFAULT_TTL;
    }

    action exchange_ipv6() {
        ipv6_address_t own_address = hdr.ipv6.dst_addr;
        hdr.ipv6.dst_addr = hdr.ipv6.src_addr;
        hdr.ipv6.src_addr = own_address;
        hdr.ipv6.hop_limit = DEFAULT_TTL;
    }

    // RFC 792 and RFC 4443, section 4.2: only the type changes.
    action answer_echo_request(bit<8> reply) {
        hdr.icmp.checksum = updated_checksum(
            hdr.icmp.checksum,
            word_delta(hdr.icmp.type ++ hdr.icmp.code, reply ++ hdr.icmp.code)
        );
        hdr.icmp.type = reply;
    }

    action answer_hello() {
        udp_port_t own_port = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = own_port;
        hdr.udp.checksum = updated_udp_checksum(
            hdr.udp.checksum,
            word_delta(hdr.hello.version ++ hdr.hello.kind, hdr.hello.version ++ HELLO_ALIVE)
        );
        hdr.hello.kind = HELLO_ALIVE;
    }

    action send_to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in._pad = 0;
        standard_metadata.egress_spec = CPU_PORT;
    }

    apply {
        if (verdict == conference_verdict_t.TO_CONTROLLER) {
            send_to_controller();
        } else if (
            verdict == conference_verdict_t.ANSWER_ARP
            || verdict == conference_verdict_t.ANSWER_NEIGHBOUR
            || verdict == conference_verdict_t.ANSWER_ECHO
            || verdict == conference_verdict_t.ANSWER_HELLO
        ) {
            if (verdict == conference_verdict_t.ANSWER_ARP) {
                answer_arp_request();
            } else if (verdict == conference_verdict_t.ANSWER_NEIGHBOUR) {
                answer_neighbour_solicitation();
            } else {
                if (verdict == conference_verdict_t.ANSWER_HELLO) {
                    answer_hello();
                } else if (hdr.ipv4.isValid()) {
                    answer_echo_request(0);
                } else {
                    answer_echo_request(ICMPV6_ECHO_REPLY);
                }
                if (hdr.ipv4.isValid()) {
                    exchange_ipv4();
                } else {
                    exchange_ipv6();
                }
            }
            hdr.ethernet.dst_addr = hdr.ethernet.src_addr;
            hdr.ethernet.src_addr = own_mac;
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        }
    }
}

// A packet-out of the controller leaves by the port in its header.
control ConferencePacketOut(
    inout conference_headers_t hdr,
    inout standard_metadata_t standard_metadata
) {
    apply {
        standard_metadata.egress_spec = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

#endif
