// Loops of an apply block that apply no table are code; `return` inside leaves the control, and a
// variable of the control keeps what the loop gave it.
header data_t {
    bit<8> n;
    bit<8> bits;
    bit<8> at;
    bit<8> end;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    bit<8> i;
    apply {
        for (bit<8> k in 0 .. 7) {
            hdr.data.bits = hdr.data.bits + ((hdr.data.n >> k) & 1);
        }
        for (i = 0; i < 200; i = i + 3) {
            if (i >= hdr.data.n) { break; }
        }
        hdr.data.at = i;
        for (i = 255; i > hdr.data.n; i = i - 1) {
            if (i == 0x80) { return; }
        }
        hdr.data.end = 1;
    }
}

PROGRAM;
