// select on one value, on several, with default in the end; the first case that fits (section 13.6).
header data_t {
    bit<8> a;
    bit<8> b;
}
header mark_t { bit<8> value; }
struct headers_t {
    data_t data;
    mark_t one;
    mark_t two;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.a, hdr.data.b) {
            (1, 1): both;
            (1, _): first;
            (_, 1): second;
            (2, 3): accept;
            (default, 4): first;
            _: reject;
        }
    }
    state both {
        packet.extract(hdr.one);
        transition second;
    }
    state first { packet.extract(hdr.one); transition accept; }
    state second { packet.extract(hdr.two); transition accept; }
}

INGRESS {
    apply {
        if (hdr.one.isValid()) { hdr.one.value = 0x11; }
        if (hdr.two.isValid()) { hdr.two.value = 0x22; }
        if (standard_metadata.parser_error != error.NoError) { mark_to_drop(standard_metadata); }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
