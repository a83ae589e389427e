#include "../prelude.p4"

INGRESS { apply { } }
control Own(packet_out packet, in headers_t hdr) {
    apply { if (hdr.word.c == 1) { packet.emit(hdr.word); } }
}
V1Switch(TestParser(), NoChecksum(), Tested(), NoEgress(), NoChecksum(), Own()) main;
