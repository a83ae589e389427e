// Controller headers that are not whole bytes, which only headers that no packet has may be: the server
// fills them up at their end, and the program reads and writes them as headers of its own.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t { bit<9> port; bit<3> reason; }
@controller_header("packet_out")
header packet_out_t { bit<32> port; bit<1> submit_to_ingress; bit<6> reason; }

header to_controller_t { bit<9> port; bit<3> reason; bit<4> fill; }
header from_controller_t { bit<32> port; bit<1> submit_to_ingress; bit<6> reason; bit<1> fill; }

struct headers_t { to_controller_t to_controller; from_controller_t from_controller; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.from_controller); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.to_controller.setValid();
        hdr.to_controller.port = (bit<9>)hdr.from_controller.port;
        hdr.to_controller.reason = hdr.from_controller.submit_to_ingress ++ hdr.from_controller.reason[5:4];
        hdr.to_controller.fill = 0xf;
        if (hdr.from_controller.fill == 0) {
            hdr.from_controller.setInvalid();
        }
        sm.egress_spec = 510;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
