// random gives a number from lo to hi, both included; lo where they are equal (v1model).
header data_t {
    bit<8> a;
    bit<8> same;
    bit<8> within;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> same;
        bit<8> within;
        random(same, 8w7, 8w7);
        random(within, 8w10, 8w20);
        hdr.data.same = same;
        hdr.data.within = within >= 10 && within <= 20 ? 8w1 : 0;
    }
}

PROGRAM;
