// bool in a struct, in a header, compared and inverted (sections 7.1.4, 8.5).
header data_t {
    bool   a;
    bool   b;
    bit<6> rest;
    bit<8> seen;
}
struct headers_t { data_t data; }
struct metadata_t { bool both; }
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.both = hdr.data.a && hdr.data.b;
        hdr.data.seen = 0;
        if (hdr.data.a == hdr.data.b) { hdr.data.seen = hdr.data.seen | 1; }
        if (hdr.data.a != hdr.data.b) { hdr.data.seen = hdr.data.seen | 2; }
        if (meta.both) { hdr.data.seen = hdr.data.seen | 4; }
        if (!hdr.data.a) { hdr.data.seen = hdr.data.seen | 8; }
        hdr.data.a = !hdr.data.a;
        hdr.data.b = true;
    }
}

PROGRAM;
