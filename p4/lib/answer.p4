// The SFU as a station of its network: it answers ARP and ICMP echo for its own address, and
// passes ARP replies and the controller's own frames on.
#ifndef ANSWER_P4
#define ANSWER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"
#include "verdict.p4"

// Reads `verdict` and `own_mac`. For a packet to answer, writes the headers and egress_spec.
control Answer(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout mac_address_t own_mac,
    inout standard_metadata_t standard_metadata
) {
    // RFC 826, "Packet Reception"
    action answer_arp_request() {
        hdr.ethernet.dst_addr = hdr.arp.sender_hardware_addr;
        hdr.ethernet.src_addr = own_mac;
        ipv4_address_t own_address = hdr.arp.target_protocol_addr;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_hardware_addr = hdr.arp.sender_hardware_addr;
        hdr.arp.target_protocol_addr = hdr.arp.sender_protocol_addr;
        hdr.arp.sender_hardware_addr = own_mac;
        hdr.arp.sender_protocol_addr = own_address;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    // RFC 792, "Echo or Echo Reply Message": exchanges the addresses, which changes no checksum,
    // and changes type 8 to 0.
    action answer_echo_request() {
        hdr.ethernet.dst_addr = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = own_mac;
        ipv4_address_t own_address = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = own_address;
        hdr.ipv4.header_checksum = updated_checksum(
            hdr.ipv4.header_checksum,
            word_delta(hdr.ipv4.ttl ++ hdr.ipv4.protocol, DEFAULT_TTL ++ hdr.ipv4.protocol)
        );
        hdr.ipv4.ttl = DEFAULT_TTL;
        hdr.icmp.checksum = updated_checksum(
            hdr.icmp.checksum,
            word_delta(hdr.icmp.type ++ hdr.icmp.code, 16w0)
        );
        hdr.icmp.type = 0;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    action send_to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in._pad = 0;
        standard_metadata.egress_spec = CPU_PORT;
    }

    apply {
        if (verdict == verdict_t.ANSWER_ARP) {
            answer_arp_request();
        } else if (verdict == verdict_t.ANSWER_ECHO) {
            answer_echo_request();
        } else if (verdict == verdict_t.TO_CONTROLLER) {
            send_to_controller();
        }
    }
}

// A packet-out of the controller leaves by the port in its header.
control PacketOut(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

#endif
