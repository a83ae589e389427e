// Assigning to a slice changes those bits only, also across bytes (sections 6.7, 8.7).
header data_t {
    bit<32> word;
    bit<8>  value;
    bit<4>  high;
    bit<4>  low;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.word[31:28] = 4w0xa;
        hdr.data.word[19:12] = hdr.data.value;
        hdr.data.word[0:0] = 1;
        hdr.data.low[2:1] = hdr.data.high[1:0];
    }
}

PROGRAM;
