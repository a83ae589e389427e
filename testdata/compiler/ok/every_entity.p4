// Every entity that P4Runtime knows: the server's tests write and read them all.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

// What has happened to the packet, for the tests.
header marks_t {
    bit<8> color;
    bit<8> trunk;
    bit<8> chosen;
    bit<8> kind;
}

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> _pad; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> _pad; }

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    marks_t      marks;
}

struct metadata_t {
    bit<2> color;
    bit<8> count;
}

struct seen_t {
    bit<48> src_addr;
    bit<9>  port;
    bit<8>  kind;
}

struct noted_t {
    bit<16> ether_type;
}

struct trunk_t {
    @match(ternary) bit<16> ether_type;
    bit<9> port;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) trunks;
    value_set<trunk_t>(2) port_trunks;
    state start {
        transition select(sm.ingress_port) {
            510: controller;
            default: ethernet;
        }
    }
    state controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.marks);
        transition select(hdr.ethernet.ether_type) {
            trunks: trunk;
            default: pairs;
        }
    }
    state pairs {
        transition select(hdr.ethernet.ether_type, sm.ingress_port) {
            port_trunks: trunk;
            default: accept;
        }
    }
    state trunk {
        hdr.marks.trunk = 1;
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc16, 16, 16) spread;
    @max_group_size(4) action_selector(HashAlgorithm.crc16, 16, 16) bounded;
    action_profile(4) shared;
    meter(8, MeterType.packets) rates;
    direct_meter<bit<2>>(MeterType.bytes) own_rate;
    direct_counter(CounterType.packets_and_bytes) own_count;
    counter(8, CounterType.packets_and_bytes) counts;
    register<bit<48>>(8) slots;
    register<bit<1>>(4) flags;

    action send(bit<9> port) {
        sm.egress_spec = port;
        hdr.marks.chosen = (bit<8>) port;
    }
    action mark(bit<8> value) {
        hdr.marks.chosen = value;
        sm.egress_spec = 1;
    }
    action metered() { own_rate.read(meta.color); hdr.marks.color = (bit<8>) meta.color; own_count.count(); }
    action to_group(bit<16> group) { sm.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); }

    @p4runtime_role("meters")
    table limited {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { metered; NoAction; }
        meters = own_rate;
        counters = own_count;
        support_timeout = true;
        default_action = NoAction();
    }
    table one {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { send; mark; NoAction; }
        implementation = shared;
    }
    table many {
        key = { hdr.ethernet.dst_addr: exact; hdr.ethernet.src_addr: selector; }
        actions = { send; mark; NoAction; }
        implementation = spread;
    }
    @p4runtime_role("routing")
    table few {
        key = { hdr.ethernet.dst_addr: exact; hdr.ethernet.src_addr: selector; }
        actions = { send; mark; NoAction; }
        implementation = bounded;
    }
    table ordered {
        key = { hdr.ethernet.dst_addr: ternary; }
        actions = { mark; NoAction; }
        size = 4;
    }
    @p4runtime_role("program")
    table begun {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { mark; NoAction; }
        entries = {
            0xb1: mark(71);
            const 0xb2: mark(72);
        }
        size = 8;
    }
    table replicated {
        key = { hdr.ethernet.ether_type: exact; }
        actions = { to_group; mirror; NoAction; }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.marks.kind == 0xff) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = sm.ingress_port;
            sm.egress_spec = 510;
        } else {
            sm.egress_spec = 1;
            if (hdr.marks.kind == 1) {
                digest<seen_t>(1, { hdr.ethernet.src_addr, sm.ingress_port, hdr.marks.kind });
            }
            if (hdr.marks.kind == 2) {
                digest<noted_t>(1, { hdr.ethernet.ether_type });
            }
            if (hdr.marks.kind == 3) {
                rates.execute_meter((bit<32>) sm.ingress_port, meta.color);
                hdr.marks.color = (bit<8>) meta.color;
            }
            counts.count((bit<32>) sm.ingress_port);
            limited.apply();
            ordered.apply();
            one.apply();
            many.apply();
            few.apply();
            begun.apply();
            replicated.apply();
            bit<48> last;
            slots.read(last, (bit<32>) sm.ingress_port);
            slots.write((bit<32>) sm.ingress_port, last + 1);
            flags.write((bit<32>) sm.ingress_port, 1);
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { if (sm.instance_type != 0) { hdr.marks.chosen = (bit<8>) sm.egress_rid; } }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
