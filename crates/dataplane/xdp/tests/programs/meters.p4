// Writes two colours into each frame: one by the meter of the frame's entry, which counts bytes, and one by a cell of
// an array, which counts packets.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header tag_t {
    bit<32> number;
    bit<8> direct;
    bit<8> color;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t tag;
}

struct metadata_t {
    bit<2> direct;
    bit<2> color;
    bit<32> cell;
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
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) rate;
    meter(8, MeterType.packets) rates;

    action forward(bit<9> port, bit<16> cell) {
        standard.egress_spec = port;
        meta.cell = (bit<32>) cell;
        hits.count();
        rate.read(meta.direct);
    }
    action drop() {
        mark_to_drop(standard);
    }
    table addresses {
        key = { headers.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = hits;
        meters = rate;
        size = 64;
    }

    apply {
        // These values stay where no meter writes a colour: on a miss, and beyond the array's end.
        meta.direct = 3;
        meta.color = 3;
        addresses.apply();
        rates.execute_meter(meta.cell, meta.color);
        headers.tag.direct = (bit<8>) meta.direct;
        headers.tag.color = (bit<8>) meta.color;
    }
}

control ExchangeEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
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
