// Headers are equal if both are invalid, or both valid with equal fields (section 8.18).
header data_t {
    bit<8> kind;
    bit<8> a;
}
struct headers_t {
    data_t data;
    data_t other;
    data_t third;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> seen = 0;
        if (hdr.other == hdr.third) { seen = seen | 1; }
        if (hdr.data == hdr.other) { seen = seen | 2; }
        hdr.other = hdr.data;
        if (hdr.data == hdr.other) { seen = seen | 4; }
        hdr.other.a = 7;
        if (hdr.data != hdr.other) { seen = seen | 8; }
        hdr.other.setInvalid();
        hdr.data.kind = seen;
    }
}

PROGRAM;
