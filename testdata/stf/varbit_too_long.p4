// A varbit longer than its maximum is HeaderTooShort, one longer than the packet PacketTooShort (sections 13.8.2, 24).
header fixed_t { bit<8> n_bytes; }
header data_t { varbit<32> value; }
struct headers_t {
    fixed_t fixed;
    data_t  data;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.fixed);
        packet.extract(hdr.data, (bit<32>) hdr.fixed.n_bytes << 3);
        transition accept;
    }
}

INGRESS {
    apply {
        if (standard_metadata.parser_error == error.HeaderTooShort) {
            hdr.fixed.n_bytes = 0xe1;
        } else if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.fixed.n_bytes = 0xe2;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
