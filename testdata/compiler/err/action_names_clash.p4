// The control plane could not tell the two actions apart.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t { }

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
    @name(".count") action up() { hdr.h.kind = hdr.h.kind + 1; }
    @name(".count") action down() { hdr.h.kind = hdr.h.kind - 1; }
    table t {
        key = { hdr.h.kind : exact; }
        actions = { up; down; }
        default_action = up();
    }
    apply { t.apply(); }
}

control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), NoChecksum(), I(), E(), NoChecksum(), D()) main;
