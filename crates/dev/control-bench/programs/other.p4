// The run of `reprise-control-abuse` sometimes replaces `every_entity.p4` by this program. The tables and objects of
// this program are in the same places as those of `every_entity.p4` but have other names, and nobody ever writes them.
// One register is the same in both programs.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t { bit<2> color; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) untouched_types;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            untouched_types: accept;
            default: accept;
        }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc16, 16, 16) untouched_spread;
    action_profile(4) untouched_shared;
    meter(8, MeterType.packets) untouched_rates;
    register<bit<48>>(8) slots;

    action untouched(bit<9> port) { mark_to_drop(sm); }

    table untouched_limited {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { untouched; NoAction; }
        support_timeout = true;
    }
    table untouched_one {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { untouched; NoAction; }
        implementation = untouched_shared;
    }
    table untouched_many {
        key = { hdr.ethernet.dst_addr: exact; hdr.ethernet.src_addr: selector; }
        actions = { untouched; NoAction; }
        implementation = untouched_spread;
    }
    table untouched_ordered {
        key = { hdr.ethernet.dst_addr: ternary; }
        actions = { untouched; NoAction; }
    }

    apply {
        sm.egress_spec = 1;
        untouched_rates.execute_meter((bit<32>) sm.ingress_port, meta.color);
        untouched_limited.apply();
        untouched_ordered.apply();
        untouched_one.apply();
        untouched_many.apply();
        bit<48> last;
        slots.read(last, 0);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
