#include <core.p4>
#include <v1model.p4>

const bool FLAG = true;
struct headers_t { }
struct metadata_t {
    @field_list(MISSING) bit<8> a;
    @field_list(FLAG, 1) bit<8> b;
    @field_list(1 2) bit<8> c;
}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start { transition accept; }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply { resubmit_preserving_field_list(1); }
}
control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
