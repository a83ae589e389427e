// Explicit casts between widths, signs, bit<1> and bool (section 8.12.1).
header data_t {
    bit<16> wide;
    bit<8>  narrow;
    int<8>  signed;
    bit<1>  flag;
    bit<7>  rest;
}
header seen_t {
    bit<8>  truncated;
    bit<16> widened;
    int<16> sign_extended;
    bit<16> sign_extended_bits;
    bit<8>  same_bits;
    int<8>  as_signed;
    bit<8>  chosen;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t { bool yes; }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.seen.setValid();
        hdr.seen.truncated = (bit<8>) hdr.data.wide;
        hdr.seen.widened = (bit<16>) hdr.data.narrow;
        hdr.seen.sign_extended = (int<16>) hdr.data.signed;
        hdr.seen.sign_extended_bits = (bit<16>) (int<16>) hdr.data.signed;
        hdr.seen.same_bits = (bit<8>) hdr.data.signed;
        hdr.seen.as_signed = (int<8>) hdr.data.narrow;
        meta.yes = (bool) hdr.data.flag;
        hdr.seen.chosen = meta.yes ? 8w1 : 8w2;
        hdr.data.flag = (bit<1>) !meta.yes;
    }
}

PROGRAM;
