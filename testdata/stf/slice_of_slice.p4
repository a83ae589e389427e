// A slice of a slice, of a sum, of a concatenation and of a signed number (section 8.7, 8.8).
header data_t {
    bit<16> a;
    bit<16> b;
}
header seen_t {
    bit<4> of_slice;
    bit<4> of_sum;
    bit<8> of_concatenation;
    bit<8> of_signed;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        int<16> negative = -5;
        hdr.seen.setValid();
        hdr.seen.of_slice = hdr.data.a[11:4][5:2];
        hdr.seen.of_sum = (hdr.data.a + hdr.data.b)[15:12];
        hdr.seen.of_concatenation = (hdr.data.a ++ hdr.data.b)[19:12];
        hdr.seen.of_signed = (bit<8>) negative[10:3];
    }
}

PROGRAM;
