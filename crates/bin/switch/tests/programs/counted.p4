// Counts every packet in an array and at the entry that it matches, and drops it.
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
    @id(0x12000001) counter(2000, CounterType.packets_and_bytes) verdicts;
    @id(0x13000001) direct_counter(CounterType.packets_and_bytes) seen;
    @id(0x01000001) action note(@id(1) bit<32> verdict) {
        verdicts.count(verdict);
        mark_to_drop(standard_metadata);
    }
    @id(0x02000001) table lengths {
        key = {
            standard_metadata.ingress_port : exact @name("ingress_port") @id(1);
            standard_metadata.packet_length : ternary @name("packet.length") @id(2);
        }
        actions = { note; @defaultonly NoAction; }
        const default_action = NoAction();
        counters = seen;
        size = 1024;
    }
    apply { lengths.apply(); }
}

control egress(inout headers_t headers, inout metadata_t metadata,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control deparser(packet_out packet, in headers_t headers) {
    apply {}
}

V1Switch(start_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
