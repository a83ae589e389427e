// setValid, setInvalid, isValid; setValid twice keeps the fields (section 8.18).
header data_t {
    bit<8> what;
}
header extra_t {
    bit<8> a;
}
struct headers_t {
    data_t  data;
    extra_t extra;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        if (hdr.data.what != 0) {
            hdr.extra.setValid();
            hdr.extra.a = 0x33;
        }
        if (hdr.data.what == 2) {
            hdr.extra.setValid();
        }
        if (hdr.data.what == 3) {
            hdr.extra.setInvalid();
        }
        if (hdr.extra.isValid()) {
            hdr.data.what = hdr.data.what + 0x80;
        }
        if (hdr.data.what == 4) {
            hdr.data.setInvalid();
        }
        if (!hdr.extra.isValid() && hdr.data.isValid()) {
            hdr.data.what = 0x7f;
        }
    }
}

PROGRAM;
