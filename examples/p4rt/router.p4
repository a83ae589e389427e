// A small router for the tour of docs/p4rt.md. The router forwards by routes, filters, tells the controller of hosts
// that the router has not seen, and sends the controller the packets for which there is no route.

#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;
const bit<16> TYPE_IPV4 = 0x800;
// Why a packet comes to the controller; routes may give other reasons.
const bit<8> NO_ROUTE = 1;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<3> flags;
    bit<13> frag_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
    bit<8> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t { }

struct host_t {
    bit<32> src_addr;
    bit<9> port;
}

parser RouterParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t sm
) {
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: packet_out;
            default: ethernet;
        }
    }
    state packet_out {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Verification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) route_packets;
    direct_meter<bit<2>>(MeterType.bytes) host_rate;
    counter(512, CounterType.packets) port_packets;
    register<bit<32>>(512) last_src_addr;
    bit<2> color = 0;

    action drop() {
        mark_to_drop(sm);
    }
    action to_controller(bit<8> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = sm.ingress_port;
        hdr.packet_in.reason = reason;
        sm.egress_spec = CPU_PORT;
    }
    action forward(bit<48> dst_addr, bit<9> port) {
        hdr.ethernet.dst_addr = dst_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        sm.egress_spec = port;
    }
    action multicast(bit<16> group) {
        sm.mcast_grp = group;
    }
    action allow() { }
    action known() {
        host_rate.read(color);
    }
    action unknown() {
        digest<host_t>(1, { hdr.ipv4.src_addr, sm.ingress_port });
    }

    // Written by the controller for the hosts that it is told of.
    table hosts {
        key = { hdr.ipv4.src_addr: exact; }
        actions = { known; @defaultonly unknown; }
        default_action = unknown();
        meters = host_rate;
        support_timeout = true;
        size = 1024;
    }
    table filters {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.total_len: range;
            hdr.ipv4.protocol: optional;
        }
        actions = { allow; drop; }
        default_action = allow();
        size = 64;
    }
    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; multicast; to_controller; drop; }
        default_action = to_controller(NO_ROUTE);
        counters = route_packets;
        size = 1048576;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (!hdr.ipv4.isValid()) {
            drop();
        } else {
            port_packets.count((bit<32>) sm.ingress_port);
            last_src_addr.write((bit<32>) sm.ingress_port, hdr.ipv4.src_addr);
            hosts.apply();
            switch (filters.apply().action_run) {
                allow: {
                    if (color == 2) {
                        drop();
                    } else {
                        routes.apply();
                    }
                }
            }
        }
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control RouterChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            {
                hdr.ipv4.version,
                hdr.ipv4.ihl,
                hdr.ipv4.diffserv,
                hdr.ipv4.total_len,
                hdr.ipv4.identification,
                hdr.ipv4.flags,
                hdr.ipv4.frag_offset,
                hdr.ipv4.ttl,
                hdr.ipv4.protocol,
                hdr.ipv4.src_addr,
                hdr.ipv4.dst_addr
            },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16
        );
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(
    RouterParser(),
    Verification(),
    RouterIngress(),
    RouterEgress(),
    RouterChecksum(),
    RouterDeparser()
) main;
