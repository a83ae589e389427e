// Every operator of bit<WIDTH>, in a frame of PADDED bits a number. The results follow the operands.
header data_t {
    bit<PADDED> a;
    bit<PADDED> b;
    bit<8>      n;
}

header results_t {
    bit<PADDED> sum;
    bit<PADDED> difference;
    bit<PADDED> product;
    bit<PADDED> minus;
    bit<PADDED> both;
    bit<PADDED> any;
    bit<PADDED> odd;
    bit<PADDED> complement;
    bit<PADDED> left;
    bit<PADDED> right;
    bit<PADDED> saturating_sum;
    bit<PADDED> saturating_difference;
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
        bit<WIDTH> a = (bit<WIDTH>) hdr.data.a;
        bit<WIDTH> b = (bit<WIDTH>) hdr.data.b;
        hdr.results.setValid();
        hdr.results.sum = (bit<PADDED>) (a + b);
        hdr.results.difference = (bit<PADDED>) (a - b);
        hdr.results.product = (bit<PADDED>) (a * b);
        hdr.results.minus = (bit<PADDED>) (-a);
        hdr.results.both = (bit<PADDED>) (a & b);
        hdr.results.any = (bit<PADDED>) (a | b);
        hdr.results.odd = (bit<PADDED>) (a ^ b);
        hdr.results.complement = (bit<PADDED>) (~a);
        hdr.results.left = (bit<PADDED>) (a << hdr.data.n);
        hdr.results.right = (bit<PADDED>) (a >> hdr.data.n);
        hdr.results.saturating_sum = (bit<PADDED>) (a |+| b);
        hdr.results.saturating_difference = (bit<PADDED>) (a |-| b);
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
