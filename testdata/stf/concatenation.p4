// ++ of unequal widths, of signed numbers, in chains (section 8.10.1).
header data_t {
    bit<3>  a;
    bit<5>  b;
    bit<8>  c;
}
header seen_t {
    bit<8>  swapped;
    bit<16> chain;
    bit<16> with_constant;
    int<16> signed;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        int<8> minus_one = -1;
        hdr.seen.setValid();
        hdr.seen.swapped = hdr.data.b ++ hdr.data.a;
        hdr.seen.chain = hdr.data.a ++ hdr.data.b ++ hdr.data.c;
        hdr.seen.with_constant = 4w0xf ++ hdr.data.c ++ 4w1;
        hdr.seen.signed = minus_one ++ (int<8>) hdr.data.c;
    }
}

PROGRAM;
