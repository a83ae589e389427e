// Updates checksums from the changed fields only: RFC 1624, equation 3,
//     HC' = ~(~HC + ~m + m')
// in one's complement 16-bit arithmetic. A *delta* is the sum of all ~m and m' of a change, not
// yet folded to 16 bits; one delta serves every checksum that covers the changed fields.
#ifndef CHECKSUM_P4
#define CHECKSUM_P4

#include "headers.p4"

bit<32> word_delta(in bit<16> old_word, in bit<16> new_word) {
    return (bit<32>) ~old_word + (bit<32>) new_word;
}

bit<32> address_delta(in ipv4_address_t old_addr, in ipv4_address_t new_addr) {
    return word_delta(old_addr[31:16], new_addr[31:16])
        + word_delta(old_addr[15:0], new_addr[15:0]);
}

// Folding twice is enough: a delta and a checksum together stay below 2^24.
bit<16> updated_checksum(in bit<16> old_checksum, in bit<32> delta) {
    bit<32> sum = (bit<32>) ~old_checksum + delta;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// RFC 768: 0 means that the sender computed no checksum, and stays 0; a computed 0 becomes 0xffff.
bit<16> updated_udp_checksum(in bit<16> old_checksum, in bit<32> delta) {
    bit<16> new_checksum = updated_checksum(old_checksum, delta);
    return old_checksum == 0 ? 16w0 : new_checksum == 0 ? 16w0xffff : new_checksum;
}

// One hop: decrements the TTL, and updates the header checksum.
control TtlDecrement(inout ipv4_t ipv4) {
    apply {
        bit<8> ttl = ipv4.ttl - 1;
        ipv4.header_checksum = updated_checksum(
            ipv4.header_checksum,
            word_delta(ipv4.ttl ++ ipv4.protocol, ttl ++ ipv4.protocol)
        );
        ipv4.ttl = ttl;
    }
}

#endif
