// Forwards frames by address: to a port, a group whose copies contain their `egress_rid`, the CPU port, or nowhere.
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
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(16, CounterType.packets) by_port;

    action forward(bit<9> port, bit<16> instance) {
        standard.egress_spec = port;
        headers.tag.instance = instance;
        hits.count();
    }
    action flood(bit<16> group) {
        standard.mcast_grp = group;
        hits.count();
    }
    action drop() {
        mark_to_drop(standard);
    }
    table addresses {
        key = { headers.ethernet.dst_addr: exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        counters = hits;
        size = 64;
    }

    apply {
        addresses.apply();
        by_port.count((bit<32>) standard.ingress_port);
    }
}

control ExchangeEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(16, CounterType.packets) copies;

    apply {
        if (standard.instance_type == 5) {
            copies.count((bit<32>) standard.egress_port);
            headers.tag.instance = standard.egress_rid;
        }
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
