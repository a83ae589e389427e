// Every operator of int<WIDTH>, in a frame of PADDED bits a number, where the results are widened with
// their sign. They follow the operands.
header data_t {
    bit<PADDED> a;
    bit<PADDED> b;
    bit<8>      n;
}

header results_t {
    int<PADDED> sum;
    int<PADDED> difference;
    int<PADDED> product;
    int<PADDED> minus;
    int<PADDED> both;
    int<PADDED> any;
    int<PADDED> odd;
    int<PADDED> complement;
    int<PADDED> left;
    int<PADDED> right;
    int<PADDED> saturating_sum;
    int<PADDED> saturating_difference;
    bit<1>      equal;
    bit<1>      unequal;
    bit<1>      less;
    bit<1>      less_or_equal;
    bit<1>      greater;
    bit<1>      greater_or_equal;
    bit<2>      zero;
}

struct headers_t {
    data_t    data;
    results_t results;
}

struct metadata_t { }

#include "one_header.p4"

INGRESS {
    apply {
        int<WIDTH> a = (int<WIDTH>) (bit<WIDTH>) hdr.data.a;
        int<WIDTH> b = (int<WIDTH>) (bit<WIDTH>) hdr.data.b;
        hdr.results.setValid();
        hdr.results.sum = (int<PADDED>) (a + b);
        hdr.results.difference = (int<PADDED>) (a - b);
        hdr.results.product = (int<PADDED>) (a * b);
        hdr.results.minus = (int<PADDED>) (-a);
        hdr.results.both = (int<PADDED>) (a & b);
        hdr.results.any = (int<PADDED>) (a | b);
        hdr.results.odd = (int<PADDED>) (a ^ b);
        hdr.results.complement = (int<PADDED>) (~a);
        hdr.results.left = (int<PADDED>) (a << hdr.data.n);
        hdr.results.right = (int<PADDED>) (a >> hdr.data.n);
        hdr.results.saturating_sum = (int<PADDED>) (a |+| b);
        hdr.results.saturating_difference = (int<PADDED>) (a |-| b);
        hdr.results.equal = (bit<1>) (a == b);
        hdr.results.unequal = (bit<1>) (a != b);
        hdr.results.less = (bit<1>) (a < b);
        hdr.results.less_or_equal = (bit<1>) (a <= b);
        hdr.results.greater = (bit<1>) (a > b);
        hdr.results.greater_or_equal = (bit<1>) (a >= b);
        hdr.results.zero = 0;
    }
}

PROGRAM;
