// The headers of a conference: those of the SFU programs, IPv6, and the first bytes of a datagram.
#ifndef CONFERENCE_HEADERS_P4
#define CONFERENCE_HEADERS_P4

#include "headers.p4"

typedef bit<128> ipv6_address_t;
typedef bit<16> leg_t;

const bit<16> ETHER_TYPE_IPV6 = 0x86dd;
const bit<8> PROTOCOL_FRAGMENT = 44;
const bit<8> PROTOCOL_ICMPV6 = 58;
const bit<16> IPV6_LEN_BYTES = 40;

const bit<8> ICMPV6_ECHO_REQUEST = 128;
const bit<8> ICMPV6_ECHO_REPLY = 129;
const bit<8> NEIGHBOUR_SOLICITATION = 135;
const bit<8> NEIGHBOUR_ADVERTISEMENT = 136;
const bit<8> ND_SOURCE_LINK_ADDRESS = 1;
const bit<8> ND_TARGET_LINK_ADDRESS = 2;
const bit<32> ND_SOLICITED_OVERRIDE = 0x60000000;
const bit<16> ND_LEN_BYTES = 32; // ICMPv6 header, target, and one option
const bit<8> ND_HOP_LIMIT = 255; // RFC 4861, section 7.1.1: from this link, since no router sends it on

// An IPv4 address as IPv6 address (RFC 4291, section 2.5.5.2).
const bit<96> IPV4_MAPPED = 0xffff;

// A hello (docs/join.md), the datagram with which a host signs in a socket, begins with "RH", which is in a range that
// RFC 7983 leaves unassigned; then comes `hello_t`.
const bit<16> HELLO_MAGIC = 0x5248;
const bit<8> HELLO_VERSION = 1;
const bit<8> HELLO = 1; // from a host
const bit<8> HELLO_ALIVE = 5; // from the data plane: the socket is signed in
const bit<16> HELLO_UDP_LEN_BYTES = 74; // of UDP header and hello

// RFC 8200, section 3
header ipv6_t {
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    ipv6_address_t src_addr;
    ipv6_address_t dst_addr;
}

// RFC 4861, section 4.3, after the checksum, with one option: the sender's link-layer address
header neighbour_t {
    bit<32> flags;
    ipv6_address_t target;
    bit<8> option_type;
    bit<8> option_len; // in units of 8 bytes
    mac_address_t link_address;
}

// The first bytes of a datagram. In RTP and RTCP (RFC 5761, section 4) they contain version 2 and a type.
header datagram_t {
    bit<8> first;
    bit<8> second;
}

header hello_t {
    bit<8> version;
    bit<8> kind;
    bit<16> reserved;
    bit<32> leg;
}

struct conference_headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    vlan_tag_t vlan_tag;
    arp_t arp;
    ipv4_t ipv4;
    ipv6_t ipv6;
    icmp_t icmp; // ICMPv6, too
    neighbour_t neighbour;
    udp_t udp;
    datagram_t datagram;
    hello_t hello;
}

#endif
