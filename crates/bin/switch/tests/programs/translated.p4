// Has ports and routing instances that controllers write as strings, or with more bits than the program has for them:
// in keys, in arguments and in the headers in front of packets. A packet-out comes back as a packet-in.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
@p4runtime_translation_mappings({
  // The value that a packet has if no entry sets one.
  {"default", 0},
})
type bit<10> vrf_t;

@p4runtime_translation("", string)
type bit<9> port_t;

@p4runtime_translation("", bit<32>)
type bit<9> wide_port_t;

@controller_header("packet_in")
header packet_in_t {
    port_t port;
    vrf_t vrf;
    wide_port_t wide_port;
    bit<4> pad;
}

@controller_header("packet_out")
header packet_out_t {
    port_t port;
    wide_port_t wide_port;
    bit<6> pad;
}

struct headers {
    packet_in_t packet_in;
    packet_out_t packet_out;
}

struct metadata {
    vrf_t vrf;
}

parser packet_parser(packet_in packet, out headers hdr, inout metadata meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.packet_out);
        transition accept;
    }
}

control verify_checksums(inout headers hdr, inout metadata meta) {
    apply {}
}

control ingress(inout headers hdr, inout metadata meta,
                inout standard_metadata_t standard_metadata) {
    action set_vrf(vrf_t vrf) {
        meta.vrf = vrf;
    }

    table vrfs {
        key = {
            hdr.packet_out.port : exact;
            hdr.packet_out.wide_port : optional;
        }
        actions = {
            set_vrf;
            NoAction;
        }
        default_action = NoAction();
        size = 2048;
    }

    apply {
        vrfs.apply();
        hdr.packet_in.setValid();
        hdr.packet_in.port = hdr.packet_out.port;
        hdr.packet_in.vrf = meta.vrf;
        hdr.packet_in.wide_port = hdr.packet_out.wide_port;
        hdr.packet_in.pad = 0;
        hdr.packet_out.setInvalid();
        standard_metadata.egress_spec = 510;
    }
}

control egress(inout headers hdr, inout metadata meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control compute_checksums(inout headers hdr, inout metadata meta) {
    apply {}
}

control deparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.packet_in);
    }
}

V1Switch(packet_parser(), verify_checksums(), ingress(), egress(), compute_checksums(), deparser()) main;
