// Field lists by constants, on members of structs in the metadata and on a struct as a whole.
#include <core.p4>
#include <v1model.p4>

const bit<8> FIRST = 1;
enum bit<8> Kept { SECOND = 2 }
struct headers_t { }
struct inner_t {
    @field_list(FIRST) bit<8> a;
    bit<8> b;
}
struct metadata_t {
    @field_list(Kept.SECOND, FIRST + 2) inner_t inner;
}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start { transition accept; }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.inner.a == 0) {
            resubmit_preserving_field_list(FIRST);
        } else {
            clone_preserving_field_list(CloneType.I2E, 5, (bit<8>) Kept.SECOND);
            clone_preserving_field_list(CloneType.I2E, 5, 3);
        }
        meta.inner = { 1, 2 };
    }
}
control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
