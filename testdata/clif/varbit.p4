// A varbit field: its header is extracted and written by the runtime.
#include <core.p4>
#include <v1model.p4>

header options_t {
    bit<8>      len;
    varbit<320> options;
}
struct headers_t { options_t options; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.options, (bit<32>) packet.lookahead<bit<8>>() * 8);
        transition accept;
    }
}
control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { standard_metadata.egress_spec = 2; }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply { } }
control UpdateImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), UpdateImpl(), DeparserImpl()) main;
