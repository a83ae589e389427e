// A header union: setValid of one member makes the other invalid; emit of the union (sections 7.2.4, 8.20).
header data_t { bit<8> kind; }
header short_t { bit<8> value; }
header long_t { bit<16> value; }
header_union number_t {
    short_t narrow;
    long_t  wide;
}
struct headers_t {
    data_t   data;
    number_t number;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            1: parse_narrow;
            2: parse_wide;
            default: accept;
        }
    }
    state parse_narrow { packet.extract(hdr.number.narrow); transition accept; }
    state parse_wide { packet.extract(hdr.number.wide); transition accept; }
}

INGRESS {
    apply {
        if (hdr.number.narrow.isValid()) {
            bit<8> value = hdr.number.narrow.value;
            hdr.number.wide.setValid();
            hdr.number.wide.value = (bit<16>) value + 0x100;
        } else if (hdr.number.isValid()) {
            hdr.data.kind = 0x20;
        } else {
            hdr.data.kind = 0x30;
        }
        if (hdr.number.narrow.isValid()) { hdr.data.kind = 0xff; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
