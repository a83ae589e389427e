// `a[start +: width]` with a start that is known, and with one from the packet.
header data_t {
    bit<32> word;
    bit<8>  start;
    bit<8>  known;
    bit<8>  found;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.known = hdr.data.word[8+:8];
        hdr.data.found = hdr.data.word[hdr.data.start+:8];
        hdr.data.word[hdr.data.start+:4] = 0;
        hdr.data.word[0+:4] = 0xf;
    }
}

PROGRAM;
