// for over a closed range: backwards it is empty; break leaves the inner loop (section 12.8).
header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> pairs;
    bit<8> none;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> sum = 0;
        bit<8> pairs = 0;
        bit<8> none = 0;
        for (bit<8> i in 8w1 .. 8w6) {
            if (i > hdr.data.n) { continue; }
            sum = sum + i;
        }
        for (bit<8> i in 8w0 .. 8w3) {
            for (bit<8> k in 8w0 .. 8w1) {
                if (k == 1 && i == 2) { break; }
                pairs = pairs + 1;
            }
        }
        for (bit<8> i in 8w5 .. 8w4) { none = none + 1; }
        hdr.data.sum = sum;
        hdr.data.pairs = pairs;
        hdr.data.none = none;
    }
}

PROGRAM;
