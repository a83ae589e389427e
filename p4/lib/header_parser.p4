// Parses the SFU's headers, and emits them. A program must define its `metadata_t`, which this file
// does not use, before it includes this file.
#ifndef HEADER_PARSER_P4
#define HEADER_PARSER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// A frame from the controller starts with `packet_out` and is not parsed further. The parser stops after the tag of a
// frame in a VLAN (except VLAN 0), and after the IPv4 header of a packet with options and of a fragment.
parser HeaderParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_ARP: parse_arp;
            ETHER_TYPE_VLAN: parse_vlan_tag;
            default: accept;
        }
    }
    state parse_vlan_tag {
        packet.extract(hdr.vlan_tag);
        transition select(hdr.vlan_tag.vlan_id, hdr.vlan_tag.ether_type) {
            (0, ETHER_TYPE_IPV4): parse_ipv4;
            (0, ETHER_TYPE_ARP): parse_arp;
            default: accept;
        }
    }
    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(
            hdr.ipv4.version,
            hdr.ipv4.ihl,
            hdr.ipv4.more_fragments,
            hdr.ipv4.fragment_offset,
            hdr.ipv4.protocol
        ) {
            (4, 5, 0, 0, PROTOCOL_UDP): parse_udp;
            (4, 5, 0, 0, PROTOCOL_ICMP): parse_icmp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
    state parse_icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }
}

// Verifies the checksum of the received IPv4 header; a mismatch sets `checksum_error`. A header
// with options is not verified, since the packet is dropped for its options.
control HeaderVerification(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            {
                hdr.ipv4.version,
                hdr.ipv4.ihl,
                hdr.ipv4.type_of_service,
                hdr.ipv4.total_length,
                hdr.ipv4.identification,
                hdr.ipv4.reserved,
                hdr.ipv4.dont_fragment,
                hdr.ipv4.more_fragments,
                hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl,
                hdr.ipv4.protocol,
                hdr.ipv4.src_addr,
                hdr.ipv4.dst_addr
            },
            hdr.ipv4.header_checksum,
            HashAlgorithm.csum16
        );
    }
}

// Checksums are updated where a field changes (checksum.p4), and not computed again here.
control NoComputation(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

// No frame leaves with a VLAN tag: Arrival removes the tag of VLAN 0, and drops frames of other VLANs.
control HeaderDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.icmp);
        packet.emit(hdr.udp);
    }
}

#endif
