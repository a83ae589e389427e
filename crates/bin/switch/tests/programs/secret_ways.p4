// Uses a secret value wherever a trace would print a number: indices, a color, checksums, a group, a session, a queue,
// and messages of an action and of the deparser.
#include <core.p4>
#include <v1model.p4>

header tag_t {
    bit<8>  kind;
    bit<16> value;
    bit<16> sum;
}

struct headers_t { tag_t tag; }
struct metadata_t {
    bit<32> color;
    bit<16> held;
}

parser Begin(packet_in packet, out headers_t headers, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.tag);
        transition accept;
    }
}

control Verify(inout headers_t headers, inout metadata_t meta) {
    apply { verify_checksum(true, { headers.tag.value }, headers.tag.sum, HashAlgorithm.csum16); }
}

control Ways(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<16>>(65536) cells;
    register<bit<16>>(65536) looked_at;
    counter(65536, CounterType.packets) counts;
    meter(65536, MeterType.packets) rates;

    @id(0x01000001) action choose(@secret bit<16> key) {
        headers.tag.value = key;
        looked_at.read(meta.held, (bit<32>) key);
        cells.write((bit<32>) key, meta.held);
        counts.count((bit<32>) key);
        rates.execute_meter((bit<32>) key, meta.color);
        standard.mcast_grp = key;
        standard.priority = key[2:0];
        clone(CloneType.I2E, (bit<32>) key & 0x7fff);
        log_msg("{first} of action: {}, {second}", { headers.tag.kind, key, standard.ingress_port });
    }
    @id(0x02000001) table chosen {
        key = { standard.ingress_port: exact @name("port"); }
        actions = { choose; @defaultonly NoAction; }
        size = 16;
    }
    apply { chosen.apply(); }
}

control Leave(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }

control Update(inout headers_t headers, inout metadata_t meta) {
    apply { update_checksum(true, { headers.tag.value }, headers.tag.sum, HashAlgorithm.csum16); }
}

control End(packet_out packet, in headers_t headers) {
    apply {
        log_msg("deparser: {} of kind {}", { headers.tag.value, headers.tag.kind });
        packet.emit(headers.tag);
    }
}

V1Switch(Begin(), Verify(), Ways(), Leave(), Update(), End()) main;
