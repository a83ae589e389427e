// select on slices, sums, a bool, an enum and the metadata (section 13.6).
enum bit<4> Kind { Plain = 1, Framed = 2 }
header data_t {
    Kind   kind;
    bit<4> low;
    bit<8> a;
    bit<8> b;
}
header mark_t { bit<8> value; }
struct headers_t {
    data_t data;
    mark_t mark;
}
struct metadata_t { bit<8> path; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.path = 0;
        transition select(hdr.data.kind) {
            Kind.Plain: plain;
            Kind.Framed: framed;
            default: other;
        }
    }
    state plain {
        transition select(hdr.data.a[6:3]) {
            0x5: five;
            default: accept;
        }
    }
    state framed {
        transition select(hdr.data.a + hdr.data.b, hdr.data.a > hdr.data.b) {
            (0, true): zero;
            (0, false): five;
            default: accept;
        }
    }
    state other {
        transition select((bit<16>) hdr.data.low ++ hdr.data.a) {
            0x0003_44: zero;
            default: accept;
        }
    }
    state five { meta.path = 5; transition accept; }
    state zero { meta.path = 6; transition accept; }
}

INGRESS {
    apply {
        hdr.mark.setValid();
        hdr.mark.value = meta.path;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
