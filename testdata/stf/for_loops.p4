// for with a condition: several variables, break and continue, nested loops (section 12.8).
header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> odd;
    bit<8> pairs;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> sum = 0;
        bit<8> odd = 0;
        bit<8> pairs = 0;
        for (bit<8> i = 1; i <= 6; i = i + 1) {
            if (i > hdr.data.n) { break; }
            sum = sum + i;
            if (i & 1 == 0) { continue; }
            odd = odd + 1;
        }
        for (bit<8> m = 0, bit<8> j = 4; m < 4; m = m + 1, j = j - 1) {
            for (bit<8> k = 0; k < 2; k = k + 1) {
                if (k == 1 && m == 2) { break; }
                pairs = pairs + j;
            }
        }
        hdr.data.sum = sum;
        hdr.data.odd = odd;
        hdr.data.pairs = pairs;
    }
}

PROGRAM;
