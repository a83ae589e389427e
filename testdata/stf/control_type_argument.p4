// The same control text applied to several headers by its parameters (section 14.4, 7.2.13).
header data_t {
    bit<8> tag;
    bit<8> ttl;
}
struct headers_t {
    data_t data;
    data_t inner;
}
struct metadata_t { }
#include "include/blocks.p4"

control Age(inout data_t h, inout bit<8> expired) {
    action expire() {
        expired = expired + 1;
        h.setInvalid();
    }
    apply {
        if (h.isValid()) {
            if (h.ttl <= 1) { expire(); } else { h.ttl = h.ttl - 1; }
        }
    }
}

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.tag) {
            1: inner;
            default: accept;
        }
    }
    state inner { packet.extract(hdr.inner); transition accept; }
}

INGRESS {
    Age() outer_age;
    Age() inner_age;
    apply {
        bit<8> expired = 0;
        outer_age.apply(hdr.data, expired);
        inner_age.apply(hdr.inner, expired);
        if (expired == 2) { mark_to_drop(standard_metadata); }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
