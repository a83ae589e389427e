// Keys that are slices, masked fields, sums, the validity of a header, a bool (section 14.2.1.1).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}
struct headers_t {
    data_t data;
    data_t extra;
}
struct metadata_t { bool big; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.a[7:7]) {
            1: extra;
            default: accept;
        }
    }
    state extra { packet.extract(hdr.extra); transition accept; }
}

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = {
            hdr.data.a[3:0]: exact @name("low");
            hdr.data.a + hdr.data.b: exact @name("sum");
            hdr.extra.isValid(): exact @name("has_extra");
            meta.big: exact @name("is_big");
            hdr.data.b & 0xf0: exact @name("high");
        }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply {
        meta.big = hdr.data.b > 0x7f;
        t.apply();
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
