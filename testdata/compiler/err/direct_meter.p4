// A direct meter needs a table whose packets it measures, and an action that reads its colour.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t { bit<2> color; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    direct_meter<bit<2>>(MeterType.packets) never_read;
    direct_meter<bit<2>>(MeterType.bytes) no_tables;
    action mark() { no_tables.read(meta.color); }
    table metered {
        key = { hdr.h.kind : exact; }
        actions = { NoAction; }
        default_action = NoAction;
        meters = never_read;
    }
    table plain {
        key = { hdr.h.kind : exact; }
        actions = { mark; }
        default_action = mark;
    }
    apply {
        metered.apply();
        plain.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), NoChecksum(), I(), E(), NoChecksum(), D()) main;
