// bit<0>: a value that is always 0 and takes no room, in headers, metadata, parameters and keys.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8> a;
    bit<0> nothing;
    bit<8> b;
    bit<0> at_the_end;
}

struct headers_t { data_t data; }

struct metadata_t {
    bit<0> none;
    bit<8> some;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        meta.none = packet.lookahead<bit<0>>();
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action found(bit<8> value, bit<0> none) {
        hdr.data.b = value;
        hdr.data.nothing = none;
    }
    table t {
        key = {
            hdr.data.a: exact;
            hdr.data.nothing: exact;
        }
        actions = { found; NoAction; }
        default_action = NoAction();
        const entries = { (1, 0): found(0x77, 0); }
    }
    apply {
        standard_metadata.egress_spec = 1;
        meta.none = hdr.data.nothing;
        hdr.data.at_the_end = meta.none + hdr.data.nothing;
        hdr.data.at_the_end = hdr.data.at_the_end |+| meta.none;
        t.apply();
        if (hdr.data.at_the_end == 0) {
            hdr.data.a = hdr.data.a + 1;
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control TestDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(TestParser(), NoChecksum(), TestIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
