// A stack of unions parsed in a loop (sections 7.2.3, 8.20).
header data_t { bit<8> a; }
header short_t {
    bit<8> kind;
    bit<8> value;
}
header long_t {
    bit<8>  kind;
    bit<16> value;
}
header_union option_t {
    short_t narrow;
    long_t  wide;
}
struct headers_t {
    data_t      data;
    option_t[3] options;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition option;
    }
    state option {
        transition select(packet.lookahead<bit<8>>()) {
            1: parse_narrow;
            2: parse_wide;
            default: accept;
        }
    }
    state parse_narrow { packet.extract(hdr.options.next.narrow); transition option; }
    state parse_wide { packet.extract(hdr.options.next.wide); transition option; }
}

INGRESS {
    apply {
        if (hdr.options[0].narrow.isValid()) { hdr.options[0].narrow.value = 0xaa; }
        if (hdr.options[1].wide.isValid()) { hdr.options[1].wide.value = 0xbbbb; }
        if (hdr.options[2].isValid()) { hdr.data.a = 3; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
