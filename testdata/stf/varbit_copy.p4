// A header with a varbit assigned to another takes the bytes and the length along (sections 8.11, 8.18).
header data_t {
    bit<8>      n_bytes;
    varbit<64>  value;
}
struct headers_t {
    data_t data;
    data_t again;
    data_t third;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data, (bit<32>) packet.lookahead<bit<8>>() << 3);
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.again = hdr.data;
        hdr.again.n_bytes = hdr.again.n_bytes + 0x10;
        if (hdr.data.n_bytes == 2) {
            hdr.third = hdr.again;
            hdr.data.setInvalid();
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
