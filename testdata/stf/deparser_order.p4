// The deparser decides the order, may emit a header twice and leave one out (section 16.1).
header data_t { bit<8> a; }
struct headers_t {
    data_t one;
    data_t two;
    data_t three;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.one);
        packet.extract(hdr.two);
        packet.extract(hdr.three);
        transition accept;
    }
}

INGRESS { apply { if (hdr.one.a == 0) { hdr.two.setInvalid(); } } }

DEPARSER {
    apply {
        packet.emit(hdr.two);
        // What is left of a plan: nothing comes of it.
        if (hdr.one.isValid()) {
            if (hdr.three.a == 3) { } else { { } }
        }
        packet.emit(hdr.one);
        packet.emit(hdr.two);
    }
}

V1Switch(TestParser(), NoChecksum(), TestIngress(), NoEgress(), NoChecksum(), TestDeparser()) main;
