// Shifts by constants, by zero, by the width and beyond; a signed number keeps its sign (section 8.10.2).
header data_t {
    bit<16> a;
    int<16> b;
}
header seen_t {
    bit<16> left_0;
    bit<16> left_4;
    bit<16> left_16;
    bit<16> right_15;
    bit<16> right_40;
    int<16> signed_left_1;
    int<16> signed_right_4;
    int<16> signed_right_16;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.seen.setValid();
        hdr.seen.left_0 = hdr.data.a << 0;
        hdr.seen.left_4 = hdr.data.a << 4;
        hdr.seen.left_16 = hdr.data.a << 16;
        hdr.seen.right_15 = hdr.data.a >> 15;
        hdr.seen.right_40 = hdr.data.a >> 40;
        hdr.seen.signed_left_1 = hdr.data.b << 1;
        hdr.seen.signed_right_4 = hdr.data.b >> 4;
        hdr.seen.signed_right_16 = hdr.data.b >> 16;
    }
}

PROGRAM;
