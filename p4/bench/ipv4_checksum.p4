// Verifies the IPv4 header's checksum, and computes it again before the packet leaves. The program
// must define its `headers_t` (with an `ipv4`) and its `metadata_t` before it includes this file.
#ifndef BENCH_IPV4_CHECKSUM_P4
#define BENCH_IPV4_CHECKSUM_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// The controls below skip headers with options. After a router has decremented the TTL in a header with options, it
// calls this action, which computes equation 3 of RFC 1624; ~m + m' is 0xfeff for this change.
action update_checksum_with_options(inout ipv4_t ipv4) {
    bit<32> sum = (bit<32>) ~ipv4.header_checksum + 0xfeff;
    ipv4.header_checksum = ~(sum[15:0] + sum[31:16]);
}

// A mismatch sets `checksum_error`.
control VerifyIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            {
                hdr.ipv4.version,
                hdr.ipv4.ihl,
                hdr.ipv4.type_of_service,
                hdr.ipv4.total_length,
                hdr.ipv4.identification,
                hdr.ipv4.flags,
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

control UpdateIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            {
                hdr.ipv4.version,
                hdr.ipv4.ihl,
                hdr.ipv4.type_of_service,
                hdr.ipv4.total_length,
                hdr.ipv4.identification,
                hdr.ipv4.flags,
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

#endif
