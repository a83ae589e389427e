// A label switching router: pushes at the edge, swaps, pops, removes the last label before the end
// (penultimate hop popping), with up to four labels.
#include "include/headers.p4"

const bit<20> IPV4_EXPLICIT_NULL = 0;
const bit<20> ROUTER_ALERT = 1;
const bit<20> IMPLICIT_NULL = 3;

error { LabelStackTooDeep }

struct headers_t {
    ethernet_t ethernet;
    mpls_t[4]  labels;
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<16> next_hop;
    bit<3>  n_labels;
    bit<3>  tc;
    bit<8>  ttl;
    bool    is_last_label;
}

parser LsrParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        meta.n_labels = 0;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_MPLS: parse_label;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_label {
        packet.extract(hdr.labels.next);
        meta.n_labels = meta.n_labels + 1;
        transition select(hdr.labels.last.bos, meta.n_labels) {
            (1, _): parse_ipv4;
            (0, 4): too_deep;
            default: parse_label;
        }
    }

    state too_deep {
        verify(false, error.LabelStackTooDeep);
        transition reject;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// Labels that arrive. Reads labels[0], writes the stack, next_hop, tc and ttl.
control LabelSwitching(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) by_label;

    action drop() { mark_to_drop(standard_metadata); }

    action punt() { standard_metadata.egress_spec = CPU_PORT; }

    action swap(bit<20> label, bit<16> next_hop) {
        by_label.count();
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = meta.ttl;
        meta.next_hop = next_hop;
    }

    // Goes on with the label below, or with the IPv4 packet: the uniform model of RFC 3443.
    action pop_and_forward(bit<16> next_hop) {
        by_label.count();
        hdr.labels.pop_front(1);
        meta.next_hop = next_hop;
    }

    // A tunnel in a tunnel: swaps, and puts another label on top.
    action swap_and_push(bit<20> label, bit<20> outer, bit<16> next_hop) {
        by_label.count();
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = meta.ttl;
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = outer;
        hdr.labels[0].tc = meta.tc;
        hdr.labels[0].bos = 0;
        hdr.labels[0].ttl = meta.ttl;
        meta.next_hop = next_hop;
    }

    table incoming_labels {
        key = { hdr.labels[0].label: exact; }
        actions = { swap; pop_and_forward; swap_and_push; punt; drop; }
        default_action = drop();
        counters = by_label;
        size = 1024;
    }

    apply {
        meta.tc = hdr.labels[0].tc;
        meta.is_last_label = hdr.labels[0].bos == 1;
        if (hdr.labels[0].ttl <= 1 || hdr.labels[0].label == ROUTER_ALERT) {
            punt();
            exit;
        }
        meta.ttl = hdr.labels[0].ttl - 1;
        switch (incoming_labels.apply().action_run) {
            pop_and_forward: {
                if (!meta.is_last_label) {
                    hdr.labels[0].ttl = meta.ttl;
                } else if (hdr.ipv4.isValid()) {
                    hdr.ethernet.ether_type = ETHERTYPE_IPV4;
                    hdr.ipv4.ttl = meta.ttl;
                } else {
                    drop();
                    exit;
                }
            }
            drop:
            punt: { exit; }
            default: { }
        }
    }
}

// IPv4 packets at the edge. Writes labels, next_hop.
control LabelEdge(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }

    action route(bit<16> next_hop) { meta.next_hop = next_hop; }

    action push_one(bit<20> label, bit<16> next_hop) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0] = { label, hdr.ipv4.dscp[5:3], 1, hdr.ipv4.ttl - 1 };
        meta.next_hop = next_hop;
    }

    action push_two(bit<20> inner, bit<20> outer, bit<16> next_hop) {
        hdr.labels.push_front(2);
        hdr.labels[1].setValid();
        hdr.labels[1] = { inner, hdr.ipv4.dscp[5:3], 1, hdr.ipv4.ttl - 1 };
        hdr.labels[0].setValid();
        hdr.labels[0] = { outer, hdr.ipv4.dscp[5:3], 0, hdr.ipv4.ttl - 1 };
        meta.next_hop = next_hop;
    }

    table forwarding_classes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { route; push_one; push_two; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (standard_metadata.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
            exit;
        }
        switch (forwarding_classes.apply().action_run) {
            drop: { exit; }
            route: { }
            default: { hdr.ethernet.ether_type = ETHERTYPE_MPLS; }
        }
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
}

control LsrIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    LabelSwitching() label_switching;
    LabelEdge() label_edge;

    action send(port_id_t port, mac_addr_t src, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src;
        hdr.ethernet.dst_addr = dst;
    }

    action drop() { mark_to_drop(standard_metadata); }

    table next_hops {
        key = { meta.next_hop: exact; }
        actions = { send; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop();
        } else if (hdr.labels[0].isValid()) {
            label_switching.apply(hdr, meta, standard_metadata);
            next_hops.apply();
        } else if (hdr.ipv4.isValid()) {
            label_edge.apply(hdr, meta, standard_metadata);
            next_hops.apply();
        } else {
            drop();
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control LsrDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(LsrParser(), VerifyIpv4(), LsrIngress(), NoEgress(), UpdateIpv4(), LsrDeparser()) main;
