// Loops whose rounds the packet decides jump back in the action: nested, left by break, continued,
// and left by return.
header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> product;
    bit<8> odd;
    bit<8> until;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> first_above(in bit<8> bound) {
    for (bit<8> i = 0; i < 100; i = i + 7) {
        if (i > bound) {
            return i;
        }
    }
    return 0xff;
}

INGRESS {
    action count() {
        for (bit<8> i = 1; i <= hdr.data.n; i = i + 1) {
            hdr.data.sum = hdr.data.sum + i;
        }
        for (bit<8> i = 0; i < hdr.data.n; i += 1) {
            for (bit<8> j = 0; j < hdr.data.n; j += 1) {
                if (j == 3) { break; }
                hdr.data.product = hdr.data.product + 1;
            }
        }
        for (bit<8> i = 0; i < hdr.data.n; i += 1) {
            if (i[0:0] == 0) { continue; }
            hdr.data.odd = hdr.data.odd + 1;
        }
        hdr.data.until = first_above(hdr.data.n);
    }
    apply { count(); }
}

PROGRAM;
