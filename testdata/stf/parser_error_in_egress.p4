// parser_error is there in egress too, and a packet with an error is not dropped by itself (v1model).
header data_t {
    bit<8> a;
    bit<8> seen;
}
struct headers_t {
    data_t data;
    data_t more;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.more);
        transition accept;
    }
}

EGRESS {
    apply {
        if (standard_metadata.parser_error == error.PacketTooShort) { hdr.data.seen = 0xee; }
    }
}

SWITCH(TestParser, NoIngress, TestEgress);
