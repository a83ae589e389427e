// Fields and values of every kind that the shell shows in a notation of its own.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
@p4runtime_translation_mappings({
  {"default", 0},
})
type bit<10> vrf_t;

@p4runtime_translation("", bit<32>)
type bit<9> port_t;

enum bit<8> state_t {
    DOWN = 1,
    UP = 2
}

header h_t {
    bit<48> mac;
    bit<32> address;
    bit<128> address6;
    bit<64> prefix6;
    bit<16> ether_type;
    bit<9> port;
    bit<7> pad;
    bit<72> wide;
    bit<8> small;
}

@controller_header("packet_in")
header packet_in_t {
    vrf_t vrf;
    bit<6> pad;
}

struct headers_t { h_t h; }
struct metadata_t {
    vrf_t vrf;
    port_t port;
    bit<8> priority;
}
struct pair_t {
    bit<32> src_addr;
    state_t state;
}
struct nested_t {
    pair_t pair;
    bool is_last;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bool>(4) flags;
    register<state_t>(4) states;
    register<bit<32>>(4) addresses;
    register<vrf_t>(4) vrfs;

    action nothing() { }
    action set_vrf(vrf_t vrf, port_t port) {
        meta.vrf = vrf;
        meta.port = port;
    }
    action set_all(@format("MAC_ADDRESS") bit<48> mac, bit<32> dst_addr, bit<128> dst_addr6, bit<72> wide) {
        hdr.h.mac = mac;
        hdr.h.address = dst_addr;
        hdr.h.address6 = dst_addr6;
        hdr.h.wide = wide;
    }
    table exact_fields {
        key = {
            hdr.h.mac: exact;
            hdr.h.ether_type: exact;
            meta.vrf: exact;
            meta.port: exact;
            meta.priority: exact;
            hdr.h.wide: exact;
        }
        actions = { set_all; set_vrf; nothing; }
    }
    table prefixes {
        key = {
            hdr.h.address6: lpm;
            hdr.h.small: exact;
        }
        actions = { set_vrf; nothing; }
    }
    table ordered {
        key = {
            hdr.h.mac: ternary;
            hdr.h.address: ternary @format("IPV4_ADDRESS");
            hdr.h.prefix6: ternary @format("IPV6_ADDRESS");
            hdr.h.port: range;
            hdr.h.address6: optional;
            hdr.h.small: ternary @name("a key, with spaces");
        }
        actions = { set_vrf; nothing; }
    }
    table same_ends {
        key = {
            hdr.h.small: exact @name("one.small");
            hdr.h.port: exact @name("other.small");
        }
        actions = { nothing; }
    }
    apply {
        if (hdr.h.small == 1) {
            digest<nested_t>(1, { { hdr.h.address, state_t.UP }, hdr.h.pad == 0 });
        }
        exact_fields.apply();
        prefixes.apply();
        ordered.apply();
        same_ends.apply();
        bool flag;
        flags.read(flag, 0);
        flags.write(1, flag);
        states.write(0, state_t.UP);
        addresses.write(0, hdr.h.address);
        vrfs.write(0, meta.vrf);
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
