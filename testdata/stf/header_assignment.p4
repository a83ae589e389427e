// A header assigned from another takes its validity along (section 8.18).
header data_t {
    bit<8> what;
    bit<8> a;
}
struct headers_t {
    data_t data;
    data_t second;
    data_t third;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.second = hdr.data;
        hdr.second.a = 0x22;
        if (hdr.data.what == 1) {
            hdr.second = hdr.third;
        } else if (hdr.data.what == 2) {
            hdr.third = hdr.second;
            hdr.second.setInvalid();
        } else if (hdr.data.what == 3) {
            hdr.second = { 9, 9 };
        }
    }
}

PROGRAM;
