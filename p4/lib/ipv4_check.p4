// Checks whether an arriving packet is a whole and valid IPv4 packet, for any destination.
#ifndef IPV4_CHECK_P4
#define IPV4_CHECK_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "verdict.p4"
#include "udp_parser.p4"

// Reads the headers, packet_length, parser_error and checksum_error. Writes `verdict`: SERVE if
// nothing is wrong.
control Ipv4Check(
    inout udp_headers_t hdr,
    inout verdict_t verdict,
    inout standard_metadata_t standard_metadata
) {
    apply {
        verdict = verdict_t.SERVE;
        if (standard_metadata.parser_error != error.NoError) {
            verdict = verdict_t.DROP_TRUNCATED;
        } else if (hdr.ethernet.ether_type == ETHER_TYPE_ARP) {
            verdict = verdict_t.DROP_ARP;
        } else if (
            hdr.ethernet.ether_type == ETHER_TYPE_VLAN
            || hdr.ethernet.ether_type == ETHER_TYPE_SERVICE_VLAN
        ) {
            verdict = verdict_t.DROP_VLAN;
        } else if (!hdr.ipv4.isValid()) {
            verdict = verdict_t.DROP_NOT_IPV4;
        } else if (
            hdr.ipv4.version != 4
            || hdr.ipv4.ihl < 5
            || hdr.ipv4.total_length < (bit<16>) hdr.ipv4.ihl * 4
            || standard_metadata.packet_length
                < ETHERNET_LEN_BYTES + (bit<32>) hdr.ipv4.total_length
        ) {
            verdict = verdict_t.DROP_MALFORMED_IPV4;
        } else if (hdr.ipv4.ihl != 5) {
            verdict = verdict_t.DROP_IPV4_OPTIONS;
        } else if (standard_metadata.checksum_error == 1) {
            verdict = verdict_t.DROP_IPV4_CHECKSUM;
        } else if (hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0) {
            verdict = verdict_t.DROP_FRAGMENT;
        } else if (
            hdr.udp.isValid()
            && (
                hdr.udp.length < UDP_LEN_BYTES
                || hdr.udp.length > hdr.ipv4.total_length - IPV4_LEN_BYTES
            )
        ) {
            verdict = verdict_t.DROP_UDP_LENGTH;
        }
    }
}

#endif
