// Sends what comes to a port to another, and counts it in a register, a counter array and at the table's entry.
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
    @id(0x16000001) register<bit<32>>(8) seen;
    @id(0x12000001) counter(8, CounterType.packets) counted;
    @id(0x13000001) direct_counter(CounterType.packets) hits;
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
        counters = hits;
        size = 16;
    }
    apply {
        if (forward.apply().hit) {
            bit<32> before;
            seen.read(before, 3);
            seen.write(3, before + 1);
            counted.count(5);
        }
    }
}

control egress(inout headers_t headers, inout metadata_t metadata,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control deparser(packet_out packet, in headers_t headers) {
    apply {}
}

V1Switch(start_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
