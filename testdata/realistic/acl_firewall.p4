// A stateful firewall: rules by ranges and masks, and a Bloom filter that lets answers to inside in.
#include "include/headers.p4"

#define BLOOM_BITS 4096
const bit<8> TCP_SYN = 0x02;
const bit<8> TCP_ACK = 0x10;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<1>  is_from_inside;
    bit<1>  is_permitted;
    bit<32> cell_1;
    bit<32> cell_2;
}

parser FirewallParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        meta.src_port = 0;
        meta.dst_port = 0;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src_port;
        meta.dst_port = hdr.tcp.dst_port;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src_port;
        meta.dst_port = hdr.udp.dst_port;
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// The two cells of a flow, the same in both directions. Writes cell_1 and cell_2.
control FlowCells(in headers_t hdr, inout metadata_t meta) {
    apply {
        ipv4_addr_t inside = hdr.ipv4.src_addr;
        ipv4_addr_t outside = hdr.ipv4.dst_addr;
        bit<16> inside_port = meta.src_port;
        bit<16> outside_port = meta.dst_port;
        if (meta.is_from_inside == 0) {
            inside = hdr.ipv4.dst_addr;
            outside = hdr.ipv4.src_addr;
            inside_port = meta.dst_port;
            outside_port = meta.src_port;
        }
        hash(meta.cell_1, HashAlgorithm.crc16, 32w0,
             { inside, outside, inside_port, outside_port, hdr.ipv4.protocol }, (bit<32>) BLOOM_BITS);
        hash(meta.cell_2, HashAlgorithm.crc32, 32w0,
             { inside, outside, inside_port, outside_port, hdr.ipv4.protocol }, (bit<32>) BLOOM_BITS);
    }
}

control FirewallIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    register<bit<1>>(BLOOM_BITS) bloom_1;
    register<bit<1>>(BLOOM_BITS) bloom_2;
    counter(4, CounterType.packets) verdicts;
    direct_counter(CounterType.packets_and_bytes) by_rule;
    FlowCells() flow_cells;

    action drop() { mark_to_drop(standard_metadata); }

    action from_inside() { meta.is_from_inside = 1; }

    action from_outside() { meta.is_from_inside = 0; }

    // Which ports are inside. A miss is outside.
    table sides {
        key = { standard_metadata.ingress_port: exact; }
        actions = { from_inside; from_outside; }
        default_action = from_outside();
        size = 64;
    }

    action permit() {
        by_rule.count();
        meta.is_permitted = 1;
    }

    action deny() {
        by_rule.count();
        meta.is_permitted = 0;
    }

    action deny_unlisted() { meta.is_permitted = 0; }

    // The operator's rules, the higher priority first. What they do not name needs a flow from inside.
    table rules {
        key = {
            meta.is_from_inside: exact;
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            meta.src_port: range;
            meta.dst_port: range;
        }
        actions = { permit; deny; deny_unlisted; }
        const default_action = deny_unlisted();
        counters = by_rule;
        size = 512;
    }

    action forward(port_id_t port, mac_addr_t mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = mac;
    }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error != 0) {
            drop();
            exit;
        }
        sides.apply();
        switch (rules.apply().action_run) {
            deny: {
                verdicts.count(0);
                drop();
                exit;
            }
            default: { }
        }
        flow_cells.apply(hdr, meta);
        if (meta.is_from_inside == 1) {
            if (meta.is_permitted == 0) {
                verdicts.count(0);
                drop();
                exit;
            }
            // Only what can begin a flow opens the way back.
            if (!hdr.tcp.isValid() || hdr.tcp.flags & (TCP_SYN | TCP_ACK) == TCP_SYN) {
                bloom_1.write(meta.cell_1, 1);
                bloom_2.write(meta.cell_2, 1);
            }
            verdicts.count(1);
        } else if (meta.is_permitted == 1) {
            verdicts.count(1);
        } else {
            bit<1> seen_1;
            bit<1> seen_2;
            bloom_1.read(seen_1, meta.cell_1);
            bloom_2.read(seen_2, meta.cell_2);
            if (seen_1 & seen_2 == 0) {
                verdicts.count(2);
                drop();
                exit;
            }
            verdicts.count(3);
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control FirewallDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(FirewallParser(), VerifyIpv4(), FirewallIngress(), NoEgress(), UpdateIpv4(),
         FirewallDeparser()) main;
