// return leaves the action, exit the whole control; both keep what was assigned (sections 12.4, 12.5).
header data_t {
    bit<8> what;
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action work() {
        hdr.data.a = 1;
        if (hdr.data.what == 1) { return; }
        if (hdr.data.what == 2) { exit; }
        hdr.data.a = 2;
    }
    apply {
        work();
        hdr.data.b = hdr.data.b + 0x10;
        if (hdr.data.what == 3) { return; }
        hdr.data.b = hdr.data.b + 0x20;
    }
}

PROGRAM;
