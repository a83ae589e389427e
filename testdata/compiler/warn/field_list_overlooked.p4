#include <core.p4>
#include <v1model.p4>

header word_t {
    @field_list(1) bit<8> a;
}
struct headers_t { word_t word; }
struct metadata_t {
    @field_list(1) bit<8> kept;
    @field_list(1) word_t saved;
}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.word);
        transition accept;
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) {
    apply {
        meta.kept = 1;
        meta.saved = { 2 };
        resubmit_preserving_field_list(1);
        resubmit_preserving_field_list(2);
    }
}
control E(inout headers_t hdr, inout metadata_t meta,
          inout standard_metadata_t standard_metadata) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
