// Parses Ethernet, IPv4 and UDP headers, and emits them: all that a program without addresses of
// its own needs. A program must define its `metadata_t`, which this file does not use, before it
// includes this file.
#ifndef UDP_PARSER_P4
#define UDP_PARSER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

struct udp_headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

// Only IPv4 packets without options that are no fragments are parsed beyond the IPv4 header.
parser UdpParser(
    packet_in packet,
    out udp_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
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
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

// Verifies the checksum of the received IPv4 header; a mismatch sets `checksum_error`. A header
// with options is not verified, since the packet is dropped for its options.
control Ipv4Verification(inout udp_headers_t hdr, inout metadata_t meta) {
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
control NoComputation(inout udp_headers_t hdr, inout metadata_t meta) {
    apply { }
}

control UdpDeparser(packet_out packet, in udp_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

#endif
