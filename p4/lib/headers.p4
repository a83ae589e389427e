// The headers that the SFU programs read and write, with the RFCs' field names.
#ifndef HEADERS_P4
#define HEADERS_P4

typedef bit<48> mac_address_t;
typedef bit<32> ipv4_address_t;
typedef bit<16> udp_port_t;
typedef bit<9> port_t;
typedef bit<16> group_t;

const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<16> ETHER_TYPE_ARP = 0x0806;
const bit<16> ETHER_TYPE_VLAN = 0x8100; // IEEE 802.1Q, C-TAG
const bit<16> ETHER_TYPE_SERVICE_VLAN = 0x88a8; // IEEE 802.1Q, S-TAG
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_UDP = 17;

const bit<16> ARP_HARDWARE_ETHERNET = 1;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> ICMP_ECHO_REQUEST = 8;

const bit<32> ETHERNET_LEN_BYTES = 14;
const bit<32> VLAN_TAG_LEN_BYTES = 4;
const bit<16> IPV4_LEN_BYTES = 20;
const bit<16> UDP_LEN_BYTES = 8;

const bit<8> DEFAULT_TTL = 64; // RFC 1700, "IP time to live parameter"

// The port to and from the controller (P4Runtime PacketIn and PacketOut).
const port_t CPU_PORT = 510;

// The kinds of packets that ingress and egress distinguish (values of simple_switch's `instance_type`).
const bit<32> INSTANCE_EGRESS_CLONE = 2;
const bit<32> INSTANCE_RECIRCULATED = 4;
const bit<32> INSTANCE_REPLICA = 5;

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> _pad;
}

// IEEE 802.3
header ethernet_t {
    mac_address_t dst_addr;
    mac_address_t src_addr;
    bit<16> ether_type;
}

// IEEE 802.1Q, the part after the tag's ether type
header vlan_tag_t {
    bit<3> priority;
    bit<1> drop_eligible;
    bit<12> vlan_id; // 0: in no VLAN, the tag only gives a priority
    bit<16> ether_type;
}

// RFC 826, for Ethernet and IPv4
header arp_t {
    bit<16> hardware_type;
    bit<16> protocol_type;
    bit<8> hardware_len;
    bit<8> protocol_len;
    bit<16> operation;
    mac_address_t sender_hardware_addr;
    ipv4_address_t sender_protocol_addr;
    mac_address_t target_hardware_addr;
    ipv4_address_t target_protocol_addr;
}

// RFC 791, without options
header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> type_of_service;
    bit<16> total_length;
    bit<16> identification;
    bit<1> reserved;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> header_checksum;
    ipv4_address_t src_addr;
    ipv4_address_t dst_addr;
}

// RFC 792; the bytes after the checksum stay in the payload
header icmp_t {
    bit<8> type;
    bit<8> code;
    bit<16> checksum;
}

// RFC 768
header udp_t {
    udp_port_t src_port;
    udp_port_t dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    vlan_tag_t vlan_tag;
    arp_t arp;
    ipv4_t ipv4;
    icmp_t icmp;
    udp_t udp;
}

#endif
