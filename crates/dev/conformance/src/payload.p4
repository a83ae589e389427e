// A small SFU with externs that change payloads, for tests and benchmarks. Ingress looks up a
// stream's group or port, egress looks up the destination and the change of each copy.

#include <core.p4>
#include <v1model.p4>

// XORs the viewer's key over the payload. The length does not change.
extern void xor_payload(in bit<32> key, in bit<16> sequence);
// XORs the viewer's key over the payload too, appends a tag of 16 bytes, and writes the header's mark.
extern void seal_payload(in bit<32> key);

const bit<16> SEAL_BYTES = 16;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header media_t {
    bit<16> stream;
    bit<16> sequence;
    bit<16> length_;
    bit<8> round;
    bit<8> mark;
}

struct headers_t {
    ethernet_t ethernet;
    media_t media;
}

struct metadata_t {}

parser MediaParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x88b5: media;
            default: accept;
        }
    }
    state media {
        packet.extract(hdr.media);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MediaIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action to_group(bit<16> group) {
        sm.mcast_grp = group;
    }
    action to_port(bit<9> port) {
        sm.egress_spec = port;
    }
    action nowhere() {
        mark_to_drop(sm);
    }
    table streams {
        key = {
            hdr.media.stream: exact;
            hdr.media.round: exact;
        }
        actions = { to_group; to_port; nowhere; }
        default_action = nowhere();
    }
    apply {
        if (hdr.media.isValid()) {
            streams.apply();
        } else {
            sm.egress_spec = 1;
        }
    }
}

control MediaEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action send(bit<48> to) {
        hdr.ethernet.dst_addr = to;
    }
    action send_xored(bit<48> to, bit<32> key) {
        hdr.ethernet.dst_addr = to;
        xor_payload(key, hdr.media.sequence);
    }
    action send_sealed(bit<48> to, bit<32> key) {
        hdr.ethernet.dst_addr = to;
        hdr.media.length_ = hdr.media.length_ + SEAL_BYTES;
        seal_payload(key);
    }
    action send_cut(bit<32> key, bit<32> length) {
        seal_payload(key);
        truncate(length);
    }
    action mirror(bit<32> key, bit<32> session) {
        xor_payload(key, 0);
        clone(CloneType.E2E, session);
    }
    action again(bit<32> key) {
        if (hdr.media.round < 3) {
            xor_payload(key + 1, hdr.media.sequence);
            hdr.media.round = hdr.media.round + 1;
            recirculate_preserving_field_list(0);
        }
    }
    // The clone leaves with a changed payload, and the packet recirculates with its own payload.
    action round_with_copy(bit<32> session) {
        if (hdr.media.round < 100) {
            hdr.media.round = hdr.media.round + 1;
            clone(CloneType.E2E, session);
            recirculate_preserving_field_list(0);
        }
    }
    table viewers {
        key = { sm.egress_rid: exact; }
        actions = {
            send; send_xored; send_sealed; send_cut; mirror; again; round_with_copy; NoAction;
        }
        default_action = NoAction();
        size = 16384;
    }
    // The actions for clones. A clone has the payload from before the packet's extern call.
    table clones {
        key = { hdr.media.round: exact; }
        actions = { send; send_xored; send_sealed; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (sm.instance_type == 2) {
            clones.apply();
        } else {
            viewers.apply();
        }
    }
}

control MediaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.media);
    }
}

V1Switch(MediaParser(), NoChecksum(), MediaIngress(), MediaEgress(), NoChecksum(), MediaDeparser()) main;
