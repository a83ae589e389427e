// The headers of the benchmarked pipelines, with the RFCs' field names.
#ifndef BENCH_HEADERS_P4
#define BENCH_HEADERS_P4

typedef bit<48> mac_address_t;
typedef bit<32> ipv4_address_t;
typedef bit<12> vlan_id_t;
typedef bit<9> port_t;
typedef bit<16> group_t;

const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<16> ETHER_TYPE_VLAN = 0x8100;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

// IEEE 802.3
header ethernet_t {
    mac_address_t dst_addr;
    mac_address_t src_addr;
    bit<16> ether_type;
}

// IEEE 802.1Q
header vlan_t {
    bit<3> priority_code;
    bit<1> drop_eligible;
    vlan_id_t vlan_id;
    bit<16> ether_type;
}

// RFC 791, without options
header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> type_of_service;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> header_checksum;
    ipv4_address_t src_addr;
    ipv4_address_t dst_addr;
}

// The fields with which the headers of TCP (RFC 9293) and UDP (RFC 768) begin.
header ports_t {
    bit<16> src_port;
    bit<16> dst_port;
}

#endif
