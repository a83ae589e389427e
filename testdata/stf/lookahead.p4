// lookahead of a bit string, a struct and a header leaves the packet where it was (section 13.8.3).
header data_t {
    bit<8> first;
    bit<8> second;
}
header peek_t {
    bit<4> high;
    bit<4> low;
}
header seen_t {
    bit<16> word;
    bit<8>  swapped;
    bit<8>  three;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t {
    bit<16> word;
    bit<8>  swapped;
    bit<3>  three;
}
#include "include/blocks.p4"

PARSER {
    state start {
        meta.word = packet.lookahead<bit<16>>();
        meta.three = packet.lookahead<bit<3>>();
        peek_t peek = packet.lookahead<peek_t>();
        meta.swapped = peek.low ++ peek.high;
        packet.extract(hdr.data);
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.seen.setValid();
        hdr.seen.word = meta.word;
        hdr.seen.swapped = meta.swapped;
        hdr.seen.three = (bit<8>) meta.three;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
