// Addresses each copy that multicast makes of a packet to the copy's receiver, in IPv4 or IPv6.
#ifndef RECEIVERS_P4
#define RECEIVERS_P4

#include <core.p4>
#include <v1model.p4>
#include "conference_headers.p4"
#include "checksum.p4"
#include "conference_answer.p4"

// Reads egress_rid, the number of the receiver's leg (a leg is a socket that is signed in to the conference). Writes
// the headers and both checksums. The source of a copy is the address and port to which the receiver has signed in, so
// connected sockets and network address translators accept the copy as an answer.
control Receivers(
    inout conference_headers_t hdr,
    inout standard_metadata_t standard_metadata
) {
    direct_counter(CounterType.packets_and_bytes) receiver_packets;
    mac_address_t source_mac = 0;
    mac_address_t destination_mac = 0;
    ipv6_address_t source = 0;
    ipv6_address_t destination = 0;
    udp_port_t destination_port = 0;
    bool is_ipv6 = false;
    bit<32> delta = 0;
    bit<32> header_sum = 0;

    action send_to(
        mac_address_t own_mac,
        mac_address_t mac,
        ipv6_address_t own_address,
        ipv6_address_t address,
        udp_port_t udp_port
    ) {
        source_mac = own_mac;
        destination_mac = mac;
        source = own_address;
        destination = address;
        destination_port = udp_port;
    }

    // The controller writes an entry before it writes the replica that refers to the entry. A hit means a leg that is
    // signed in; a miss means a leg that has left while the packet was in the switch. An IPv4 address is
    // ::ffff:a.b.c.d.
    table receivers {
        key = { standard_metadata.egress_rid: exact @name("leg"); }
        actions = { send_to; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 32768;
        counters = receiver_packets;
    }

    // `drops_without_checksum` counts the copies that are dropped because they need a checksum over their payload: the
    // packet came in IPv4 without a UDP checksum, and the copy would leave in IPv6.
    counter(1, CounterType.packets_and_bytes) drops_without_checksum;
    counter(1, CounterType.packets_and_bytes) drops_without_receiver;

    apply {
        if (!receivers.apply().hit) {
            drops_without_receiver.count(0);
            mark_to_drop(standard_metadata);
        } else {
            is_ipv6 = destination[127:32] != IPV4_MAPPED;
            if (is_ipv6 && hdr.udp.checksum == 0) {
                drops_without_checksum.count(0);
                mark_to_drop(standard_metadata);
            } else {
                hdr.ethernet.src_addr = source_mac;
                hdr.ethernet.dst_addr = destination_mac;
                if (hdr.ipv4.isValid() && !is_ipv6) {
                    delta = address_delta(hdr.ipv4.src_addr, source[31:0])
                        + address_delta(hdr.ipv4.dst_addr, destination[31:0]);
                    hdr.ipv4.header_checksum = updated_checksum(hdr.ipv4.header_checksum, delta);
                    hdr.ipv4.src_addr = source[31:0];
                    hdr.ipv4.dst_addr = destination[31:0];
                } else if (hdr.ipv6.isValid() && is_ipv6) {
                    delta = words_of(~hdr.ipv6.src_addr)
                        + words_of(~hdr.ipv6.dst_addr)
                        + words_of(source)
                        + words_of(destination);
                    hdr.ipv6.src_addr = source;
                    hdr.ipv6.dst_addr = destination;
                } else if (is_ipv6) {
                    delta = address_delta(hdr.ipv4.src_addr, 0)
                        + address_delta(hdr.ipv4.dst_addr, 0)
                        + words_of(source)
                        + words_of(destination);
                    hdr.ipv6.setValid();
                    hdr.ipv6.version = 6;
                    hdr.ipv6.traffic_class = hdr.ipv4.type_of_service;
                    hdr.ipv6.flow_label = 0;
                    hdr.ipv6.payload_length = hdr.ipv4.total_length - IPV4_LEN_BYTES;
                    hdr.ipv6.next_header = PROTOCOL_UDP;
                    hdr.ipv6.hop_limit = hdr.ipv4.ttl;
                    hdr.ipv6.src_addr = source;
                    hdr.ipv6.dst_addr = destination;
                    hdr.ipv4.setInvalid();
                    hdr.ethernet.ether_type = ETHER_TYPE_IPV6;
                } else {
                    delta = words_of(~hdr.ipv6.src_addr)
                        + words_of(~hdr.ipv6.dst_addr)
                        + (bit<32>) source[31:16]
                        + (bit<32>) source[15:0]
                        + (bit<32>) destination[31:16]
                        + (bit<32>) destination[15:0];
                    hdr.ipv4.setValid();
                    hdr.ipv4.version = 4;
                    hdr.ipv4.ihl = 5;
                    hdr.ipv4.type_of_service = hdr.ipv6.traffic_class;
                    hdr.ipv4.total_length = hdr.ipv6.payload_length + IPV4_LEN_BYTES;
                    hdr.ipv4.identification = 0;
                    hdr.ipv4.reserved = 0;
                    hdr.ipv4.dont_fragment = 1;
                    hdr.ipv4.more_fragments = 0;
                    hdr.ipv4.fragment_offset = 0;
                    hdr.ipv4.ttl = hdr.ipv6.hop_limit;
                    hdr.ipv4.protocol = PROTOCOL_UDP;
                    hdr.ipv4.src_addr = source[31:0];
                    hdr.ipv4.dst_addr = destination[31:0];
                    // The checksum of a header of zeros is 0xffff.
                    header_sum = (bit<32>) (8w0x45 ++ hdr.ipv4.type_of_service)
                        + (bit<32>) hdr.ipv4.total_length
                        + 0x4000
                        + (bit<32>) (hdr.ipv4.ttl ++ PROTOCOL_UDP)
                        + (bit<32>) source[31:16]
                        + (bit<32>) source[15:0]
                        + (bit<32>) destination[31:16]
                        + (bit<32>) destination[15:0];
                    hdr.ipv4.header_checksum = updated_checksum(0xffff, header_sum);
                    hdr.ipv6.setInvalid();
                    hdr.ethernet.ether_type = ETHER_TYPE_IPV4;
                }
                hdr.udp.checksum = updated_udp_checksum(
                    hdr.udp.checksum,
                    delta + word_delta(hdr.udp.src_port, destination_port)
                );
                hdr.udp.src_port = hdr.udp.dst_port;
                hdr.udp.dst_port = destination_port;
            }
        }
    }
}

#endif
