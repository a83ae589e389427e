// The sender writes the way into the packet: a stack of hops, taken off one by one, and a trace of the
// way taken that grows at the end. A hop may be a port, a group of ports, or a control plane's label.
#include "include/headers.p4"

#define MAX_HOPS 8
const bit<16> ETHERTYPE_SOURCE_ROUTE = 0x88b5;

enum bit<2> HopKind {
    PORT = 0,
    GROUP = 1,
    LABEL = 2,
    RESERVED = 3
}

header preamble_t {
    bit<4>  version;
    bit<4>  n_hops;
    bit<4>  n_traces;
    bit<1>  wants_trace;
    bit<3>  reserved;
    bit<16> ether_type;
}

header hop_t {
    HopKind kind;
    bit<14> value;
}

header trace_t {
    bit<16> switch_id;
    bit<8>  in_port;
    bit<8>  out_port;
}

struct headers_t {
    ethernet_t        ethernet;
    preamble_t        preamble;
    hop_t[MAX_HOPS]   hops;
    trace_t[MAX_HOPS] traces;
}

struct metadata_t {
    bit<4>  hops_to_parse;
    bit<4>  traces_to_parse;
    bit<16> switch_id;
}

error { BadVersion, NoHopLeft, TooManyHops }

parser RouteParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_SOURCE_ROUTE: parse_preamble;
            default: accept;
        }
    }

    state parse_preamble {
        packet.extract(hdr.preamble);
        verify(hdr.preamble.version == 1, error.BadVersion);
        verify(hdr.preamble.n_hops != 0, error.NoHopLeft);
        verify(hdr.preamble.n_hops <= MAX_HOPS && hdr.preamble.n_traces <= MAX_HOPS, error.TooManyHops);
        meta.hops_to_parse = hdr.preamble.n_hops;
        meta.traces_to_parse = hdr.preamble.n_traces;
        transition parse_hop;
    }

    state parse_hop {
        packet.extract(hdr.hops.next);
        meta.hops_to_parse = meta.hops_to_parse - 1;
        transition select(meta.hops_to_parse) {
            0: next_trace;
            default: parse_hop;
        }
    }

    state next_trace {
        transition select(meta.traces_to_parse) {
            0: accept;
            default: parse_trace;
        }
    }

    state parse_trace {
        packet.extract(hdr.traces.next);
        meta.traces_to_parse = meta.traces_to_parse - 1;
        transition next_trace;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control RouteIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(8, CounterType.packets) mistakes;

    action drop() { mark_to_drop(standard_metadata); }

    action to_port(port_id_t port) { standard_metadata.egress_spec = port; }

    action to_group(bit<16> group) { standard_metadata.mcast_grp = group; }

    // Labels are names of ports and groups that outlive them. A miss drops.
    table labels {
        key = { hdr.hops[0].value: exact; }
        actions = { to_port; to_group; drop; }
        default_action = drop();
        size = 1024;
    }

    // Ports that must not be named in packets.
    table forbidden_ports {
        key = { standard_metadata.egress_spec: exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            switch (standard_metadata.parser_error == error.BadVersion ? 8w1
                    : (standard_metadata.parser_error == error.NoHopLeft ? 8w2 : 3)) {
                1: { mistakes.count(1); }
                2: { mistakes.count(2); }
                default: { mistakes.count(3); }
            }
            drop();
            exit;
        }
        if (!hdr.preamble.isValid()) {
            drop();
            exit;
        }
        switch (hdr.hops[0].kind) {
            HopKind.PORT: {
                to_port(hdr.hops[0].value[8:0]);
                forbidden_ports.apply();
            }
            HopKind.GROUP: { to_group((bit<16>) hdr.hops[0].value); }
            HopKind.LABEL: { labels.apply(); }
            default: {
                mistakes.count(4);
                drop();
                exit;
            }
        }
        hdr.hops.pop_front(1);
        hdr.preamble.n_hops = hdr.preamble.n_hops - 1;
    }
}

control RouteEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action set_switch(bit<16> switch_id) { meta.switch_id = switch_id; }

    table identity {
        key = { }
        actions = { set_switch; }
        default_action = set_switch(0);
    }

    action append(inout trace_t trace) {
        trace.setValid();
        trace.switch_id = meta.switch_id;
        trace.in_port = (bit<8>) standard_metadata.ingress_port;
        trace.out_port = (bit<8>) standard_metadata.egress_port;
        hdr.preamble.n_traces = hdr.preamble.n_traces + 1;
    }

    apply {
        identity.apply();
        if (hdr.preamble.wants_trace == 1) {
            if (hdr.preamble.n_traces == 0) { append(hdr.traces[0]); }
            else if (hdr.preamble.n_traces == 1) { append(hdr.traces[1]); }
            else if (hdr.preamble.n_traces == 2) { append(hdr.traces[2]); }
            else if (hdr.preamble.n_traces == 3) { append(hdr.traces[3]); }
        }
        // The last hop gets the packet without the route, unless it asked for the trace.
        if (hdr.preamble.n_hops == 0 && hdr.preamble.wants_trace == 0) {
            hdr.ethernet.ether_type = hdr.preamble.ether_type;
            hdr.preamble.setInvalid();
            hdr.traces.pop_front(MAX_HOPS);
        }
    }
}

control RouteDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(RouteParser(), NoChecksum(), RouteIngress(), RouteEgress(), NoChecksum(), RouteDeparser()) main;
