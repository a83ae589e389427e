// Sends each packet to port 2. An extern masks the packet's payload; the switch must have been built with this extern.
#include <core.p4>
#include <v1model.p4>

extern void mask_payload(in bit<8> key);

header kind_t {
    bit<8> kind;
}

struct headers_t {
    kind_t kind;
}

struct metadata_t {}

parser start_parser(packet_in packet, out headers_t headers, inout metadata_t metadata,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(headers.kind);
        transition accept;
    }
}

control no_checksum(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control ingress(inout headers_t headers, inout metadata_t metadata,
                inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 2;
    }
}

control egress(inout headers_t headers, inout metadata_t metadata,
               inout standard_metadata_t standard_metadata) {
    apply {
        mask_payload(headers.kind.kind);
    }
}

control deparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers);
    }
}

V1Switch(start_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
