// Mirrors chosen flows to collectors: at ingress as they came, at egress as they leave, or one packet
// in so many; the copy is cut and carried in UDP with a header that says where it was taken.
#include "include/headers.p4"

#define SAMPLERS 64
const bit<32> INGRESS_SESSION = 201;
const bit<32> EGRESS_SESSION = 202;
const bit<16> COLLECTOR_PORT = 6343;
// Ethernet, IPv4, UDP and the mirror header, then so many bytes of the packet.
const bit<32> KEPT_BYTES = 64;
const bit<32> OVERHEAD_BYTES = 14 + 20 + 8 + 12;

const bit<8> FROM_INGRESS = 1;
const bit<8> FROM_EGRESS = 2;

header mirror_t {
    bit<8>  taken_at;
    bit<8>  rule;
    bit<16> original_length;
    bit<16> in_port;
    bit<16> out_port;
    bit<32> sequence;
}

struct headers_t {
    ethernet_t outer_ethernet;
    ipv4_t     outer_ipv4;
    udp_t      outer_udp;
    mirror_t   mirror;
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {
    @field_list(1, 2) bit<8>    rule;
    @field_list(1, 2) port_id_t in_port;
    @field_list(2) port_id_t    out_port;
    @field_list(1, 2) bit<16>   length;
    bit<1> mirror_at_egress;
}

parser MirrorParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MirrorIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    register<bit<16>>(SAMPLERS) countdown;
    direct_counter(CounterType.packets) by_rule;

    action drop() { mark_to_drop(standard_metadata); }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table destinations {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    action mirror_ingress(bit<8> rule) {
        by_rule.count();
        meta.rule = rule;
        clone_preserving_field_list(CloneType.I2E, INGRESS_SESSION, 1);
    }

    action mirror_egress(bit<8> rule) {
        by_rule.count();
        meta.rule = rule;
        meta.mirror_at_egress = 1;
    }

    // One packet in `every`, the first one too.
    action sample(bit<8> rule, bit<32> sampler, bit<16> every) {
        by_rule.count();
        bit<16> left;
        countdown.read(left, sampler);
        if (left == 0) {
            left = every;
            meta.rule = rule;
            clone_preserving_field_list(CloneType.I2E, INGRESS_SESSION, 1);
        }
        countdown.write(sampler, left - 1);
    }

    // The operator's rules. A miss is not mirrored.
    table rules {
        key = {
            standard_metadata.ingress_port: ternary;
            hdr.ethernet.ether_type: ternary;
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
        }
        actions = { mirror_ingress; mirror_egress; sample; NoAction; }
        default_action = NoAction();
        counters = by_rule;
        size = 256;
    }

    apply {
        meta.in_port = standard_metadata.ingress_port;
        meta.length = (bit<16>) standard_metadata.packet_length;
        meta.mirror_at_egress = 0;
        if (!hdr.ethernet.isValid()) {
            drop();
            exit;
        }
        rules.apply();
        destinations.apply();
    }
}

// Carries a copy to the collector. Writes the outer headers and cuts the packet.
control Carrier(inout headers_t hdr, in metadata_t meta, in bit<8> taken_at) {
    register<bit<32>>(4) sequences;

    action carry(mac_addr_t src_mac, mac_addr_t dst_mac, ipv4_addr_t src, ipv4_addr_t dst) {
        bit<16> kept = meta.length;
        if (kept > (bit<16>) KEPT_BYTES) { kept = (bit<16>) KEPT_BYTES; }
        hdr.outer_ethernet.setValid();
        hdr.outer_ethernet = { dst_mac, src_mac, ETHERTYPE_IPV4 };
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4 = { 4, 5, 0, 0, kept + 40, 0, 2, 0, 64, PROTOCOL_UDP, 0, src, dst };
        hdr.outer_udp.setValid();
        hdr.outer_udp = { COLLECTOR_PORT, COLLECTOR_PORT, kept + 20, 0 };
    }

    table collectors {
        key = { meta.rule: exact; }
        actions = { carry; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        bit<32> sequence;
        collectors.apply();
        sequences.read(sequence, (bit<32>) taken_at);
        sequence = sequence + 1;
        sequences.write((bit<32>) taken_at, sequence);
        hdr.mirror.setValid();
        hdr.mirror = { taken_at, meta.rule, meta.length, (bit<16>) meta.in_port, (bit<16>) meta.out_port, sequence };
        truncate(KEPT_BYTES + OVERHEAD_BYTES);
    }
}

control MirrorEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    Carrier() carrier;

    apply {
        bit<8> taken_at = 0;
        if (standard_metadata.instance_type == 1) { taken_at = FROM_INGRESS; }
        if (standard_metadata.instance_type == 2) { taken_at = FROM_EGRESS; }
        if (taken_at != 0) {
            carrier.apply(hdr, meta, taken_at);
        } else if (meta.mirror_at_egress == 1) {
            meta.out_port = standard_metadata.egress_port;
            clone_preserving_field_list(CloneType.E2E, EGRESS_SESSION, 2);
        }
    }
}

control UpdateOuter(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.outer_ipv4.isValid(),
            { hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.dscp, hdr.outer_ipv4.ecn,
              hdr.outer_ipv4.total_length, hdr.outer_ipv4.identification, hdr.outer_ipv4.flags,
              hdr.outer_ipv4.fragment_offset, hdr.outer_ipv4.ttl, hdr.outer_ipv4.protocol,
              hdr.outer_ipv4.src_addr, hdr.outer_ipv4.dst_addr },
            hdr.outer_ipv4.header_checksum, HashAlgorithm.csum16);
    }
}

control MirrorDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MirrorParser(), NoChecksum(), MirrorIngress(), MirrorEgress(), UpdateOuter(), MirrorDeparser()) main;
