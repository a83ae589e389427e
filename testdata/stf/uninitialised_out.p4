// A header that comes in as an out argument is invalid until it is set (sections 6.8, 8.26).
header data_t {
    bit<8> a;
    bit<8> seen;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Fill(in bit<8> how, out data_t header_out) {
    apply {
        if (how == 1) {
            header_out.setValid();
            header_out.a = 0x44;
            header_out.seen = 0x55;
        }
    }
}

INGRESS {
    apply {
        data_t other = hdr.data;
        Fill.apply(hdr.data.a, other);
        hdr.data.seen = other.isValid() ? other.a : 8w0x99;
    }
}

PROGRAM;
