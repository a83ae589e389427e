// Arithmetic of arbitrary precision at compile time: every operator, negative numbers too (section 8.9).
header data_t {
    int<16> sum;
    int<16> product;
    int<16> quotient;
    int<16> modulo;
    int<16> shifted;
    bit<16> both;
    bit<16> any;
    bit<16> odd;
    bit<8>  truths;
}
struct headers_t { data_t data; }
struct metadata_t { }
const int A = 1000003;
const int B = 999;
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.sum = A - 1000000 + -5;
        hdr.data.product = -B * 3;
        hdr.data.quotient = A / B;
        hdr.data.modulo = A % B;
        hdr.data.shifted = -B >> 2;
        hdr.data.both = 0xff0 & 0x0ff;
        hdr.data.any = 0xff0 | 0x00f;
        hdr.data.odd = 0xff0 ^ 0x0ff;
        hdr.data.truths = (A > B ? 8w1 : 0) | (A <= B ? 8w2 : 0) | (A == A ? 8w4 : 0) | (A != B ? 8w8 : 0);
    }
}

PROGRAM;
