// One table, which maps a packet's ingress port to its egress port. forward.json is the same program.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser start_parser(packet_in packet, out headers_t headers, inout metadata_t metadata,
                    inout standard_metadata_t standard_metadata) {
    state start { transition accept; }
}

control no_checksum(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control ingress(inout headers_t headers, inout metadata_t metadata,
                inout standard_metadata_t standard_metadata) {
    @id(0x01000001) action send(@id(1) bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    @id(0x01000002) action refuse() {
        mark_to_drop(standard_metadata);
    }
    @id(0x02000001) table forward {
        key = { standard_metadata.ingress_port : exact @name("ingress_port") @id(1); }
        actions = { send; @defaultonly refuse; }
        const default_action = refuse();
        size = 16;
    }
    apply { forward.apply(); }
}

control egress(inout headers_t headers, inout metadata_t metadata,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control deparser(packet_out packet, in headers_t headers) {
    apply {}
}

V1Switch(start_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
