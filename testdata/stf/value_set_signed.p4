// Value sets over int<W>: members are bits in two's complement; a part under a mask, a key that is computed (section 13.11).
#include <core.p4>
#include <v1model.p4>
header h_t { int<8> x; bit<8> r; bit<96> rest; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> r; }
struct part_t { @match(exact) int<8> a; @match(ternary) int<8> b; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<int<8>>(4) v;
    value_set<part_t>(4) w;
    state start { packet.extract(hdr.h); meta.r = 0; transition select(hdr.h.x) { v: yes; default: more; } }
    state more { transition select(hdr.h.x, hdr.h.x + 1) { w: two; default: accept; } }
    state yes { meta.r = 1; transition accept; }
    state two { meta.r = 2; transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = 1; hdr.h.r = meta.r; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
