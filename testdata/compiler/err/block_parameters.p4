#include <core.p4>
#include <v1model.p4>

struct headers_t { }
struct metadata_t { bit<8> x; }

// One parameter is missing: the others are not to be measured by it.
parser P(packet_in packet, out headers_t hdr, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
// Its direction is another one.
control E(inout headers_t hdr, in metadata_t meta, inout standard_metadata_t standard) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
