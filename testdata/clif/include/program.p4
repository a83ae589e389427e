// What every program of this folder has around its one thing: an Ethernet and an IPv4 header.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdr_checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

#ifndef METADATA
#define METADATA
#endif
struct metadata_t { METADATA }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

#define INGRESS control IngressImpl(inout headers_t hdr, inout metadata_t meta, \
                                    inout standard_metadata_t standard_metadata)
#define EGRESS control EgressImpl(inout headers_t hdr, inout metadata_t meta, \
                                  inout standard_metadata_t standard_metadata)
#define UPDATE control UpdateImpl(inout headers_t hdr, inout metadata_t meta)
#define PROGRAM V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), \
                         UpdateImpl(), DeparserImpl()) main
