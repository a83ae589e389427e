// In-band telemetry after the INT specification's hop-by-hop mode: a source inserts the header, every
// switch adds its record in front of the others, the sink takes all off and reports a copy.
#include "include/headers.p4"

#define MAX_HOPS 4
const bit<6> INT_DSCP = 0x20;
const bit<32> REPORT_SESSION = 77;
const bit<8> SHIM_BYTES = 4;
const bit<8> RECORD_BYTES = 8;

// Says what was between UDP and its payload, and how much of it there is.
header int_shim_t {
    bit<8> type;
    bit<8> length_bytes;
    bit<6> dscp;
    bit<2> reserved;
    bit<8> remaining_hops;
}

header int_record_t {
    bit<16> switch_id;
    bit<8>  ingress_port;
    bit<8>  egress_port;
    bit<16> queue_depth;
    bit<16> hop_latency;
}

struct headers_t {
    ethernet_t             ethernet;
    ipv4_t                 ipv4;
    udp_t                  udp;
    int_shim_t             shim;
    int_record_t[MAX_HOPS] records;
}

struct metadata_t {
    @field_list(1) port_id_t ingress_port;
    bit<1>  is_source;
    bit<1>  is_sink;
    bit<8>  to_parse;
    bit<16> switch_id;
}

parser IntParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.ipv4.dscp) {
            INT_DSCP: parse_shim;
            default: accept;
        }
    }

    state parse_shim {
        packet.extract(hdr.shim);
        meta.to_parse = hdr.shim.length_bytes - SHIM_BYTES;
        transition next_record;
    }

    state next_record {
        transition select(meta.to_parse) {
            0: accept;
            default: parse_record;
        }
    }

    state parse_record {
        packet.extract(hdr.records.next);
        meta.to_parse = meta.to_parse - RECORD_BYTES;
        transition next_record;
    }
}

#include "include/ipv4_checksum.p4"

control IntIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }

    action forward(port_id_t port, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = dst;
    }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    action watch(bit<8> max_hops) {
        meta.is_source = 1;
        hdr.shim.setValid();
        hdr.shim = { 1, SHIM_BYTES, hdr.ipv4.dscp, 0, max_hops };
        hdr.ipv4.dscp = INT_DSCP;
        hdr.ipv4.total_length = hdr.ipv4.total_length + 4;
        hdr.udp.length = hdr.udp.length + 4;
    }

    // Flows that the operator watches, at the edge where they come in.
    table watchlist {
        key = {
            standard_metadata.ingress_port: exact;
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.udp.dst_port: ternary;
        }
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    action is_edge() { meta.is_sink = 1; }

    table sink_ports {
        key = { standard_metadata.egress_spec: exact; }
        actions = { is_edge; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1
                || standard_metadata.parser_error != error.NoError) {
            drop();
            exit;
        }
        meta.ingress_port = standard_metadata.ingress_port;
        switch (routes.apply().action_run) {
            drop: { exit; }
            default: { }
        }
        if (hdr.udp.isValid() && !hdr.shim.isValid()) { watchlist.apply(); }
        if (hdr.shim.isValid()) {
            sink_ports.apply();
            // The collector's copy is the packet as it came; it gets this switch's record in egress.
            if (meta.is_sink == 1 && meta.is_source == 0) {
                clone_preserving_field_list(CloneType.I2E, REPORT_SESSION, 1);
            }
        }
    }
}

control IntEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    action set_identity(bit<16> switch_id) { meta.switch_id = switch_id; }

    table identity {
        actions = { set_identity; }
        default_action = set_identity(0);
    }

    action add_record() {
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].switch_id = meta.switch_id;
        hdr.records[0].ingress_port = (bit<8>) meta.ingress_port;
        hdr.records[0].egress_port = (bit<8>) standard_metadata.egress_port;
        hdr.records[0].queue_depth = (bit<16>) standard_metadata.enq_qdepth;
        hdr.records[0].hop_latency = standard_metadata.deq_timedelta[15:0];
        hdr.shim.remaining_hops = hdr.shim.remaining_hops - 1;
        hdr.shim.length_bytes = hdr.shim.length_bytes + RECORD_BYTES;
        hdr.ipv4.total_length = hdr.ipv4.total_length + (bit<16>) RECORD_BYTES;
        hdr.udp.length = hdr.udp.length + (bit<16>) RECORD_BYTES;
    }

    // What the receiver must not see.
    action strip() {
        hdr.ipv4.dscp = hdr.shim.dscp;
        hdr.ipv4.total_length = hdr.ipv4.total_length - (bit<16>) hdr.shim.length_bytes;
        hdr.udp.length = hdr.udp.length - (bit<16>) hdr.shim.length_bytes;
        hdr.shim.setInvalid();
        hdr.records.pop_front(MAX_HOPS);
    }

    apply {
        if (!hdr.shim.isValid()) { return; }
        identity.apply();
        if (hdr.shim.remaining_hops != 0 && !hdr.records[MAX_HOPS - 1].isValid()) { add_record(); }
        // A clone knows only what its field list kept, so it is no sink and keeps its records.
        if (meta.is_sink == 1) { strip(); }
    }
}

control IntDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(IntParser(), VerifyIpv4(), IntIngress(), IntEgress(), UpdateIpv4(), IntDeparser()) main;
