// Forwards the frames that a port receives by their address: to a port, to a group, to the CPU port, or nowhere. For
// each frame with a tag, sends a digest to the control plane.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header tag_t {
    bit<32> number;
    bit<16> instance;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t tag;
}

struct metadata_t {}

struct arrival_t {
    bit<32> number;
    bit<16> instance;
    bit<9> port;
}

parser ExchangeParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ether_type) {
            0x88b5: tagged;
            default: accept;
        }
    }
    state tagged {
        packet.extract(headers.tag);
        transition accept;
    }
}

control ExchangeVerify(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control ExchangeIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port, bit<16> instance) {
        standard.egress_spec = port;
        headers.tag.instance = instance;
    }
    action flood(bit<16> group) {
        standard.mcast_grp = group;
    }
    action drop() {
        mark_to_drop(standard);
    }
    table addresses {
        key = { headers.ethernet.dst_addr: exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        size = 64;
    }

    apply {
        if (headers.tag.isValid()) {
            // The instance is written after this statement; the digest contains its value at the end of ingress.
            digest<arrival_t>(1, { headers.tag.number, headers.tag.instance, standard.ingress_port });
        }
        addresses.apply();
    }
}

control ExchangeEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.tag.instance = headers.tag.instance + 1;
    }
}

control ExchangeCompute(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control ExchangeDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
        packet.emit(headers.tag);
    }
}

V1Switch(ExchangeParser(), ExchangeVerify(), ExchangeIngress(), ExchangeEgress(), ExchangeCompute(), ExchangeDeparser()) main;
