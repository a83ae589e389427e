// Sends each packet to multicast group 1, but not back to the port by which it came.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}

parser FloodParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        transition accept;
    }
}

control FloodVerify(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control FloodIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.mcast_grp = 1;
    }
}

control FloodEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control FloodCompute(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control FloodDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
    }
}

V1Switch(FloodParser(), FloodVerify(), FloodIngress(), FloodEgress(), FloodCompute(), FloodDeparser()) main;
