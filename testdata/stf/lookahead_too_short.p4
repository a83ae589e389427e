// lookahead, extract and advance beyond the end: PacketTooShort, and what was extracted stays (sections 13.8, 24).
header data_t { bit<8> how; }
header long_t { bit<32> value; }
struct headers_t {
    data_t data;
    long_t wide;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.how) {
            1: looking;
            2: extracting;
            3: advancing;
            default: accept;
        }
    }
    state looking {
        transition select(packet.lookahead<bit<32>>()) {
            0: accept;
            default: extracting;
        }
    }
    state extracting { packet.extract(hdr.wide); transition accept; }
    state advancing { packet.advance(32); transition accept; }
}

INGRESS {
    apply {
        if (standard_metadata.parser_error == error.PacketTooShort) { hdr.data.how = hdr.data.how | 0xe0; }
        if (hdr.wide.isValid()) { hdr.data.how = hdr.data.how | 0x10; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
