// Fields that begin and end within bytes keep their places (section 7.2.2).
header data_t {
    bit<1>  a;
    bit<12> b;
    bit<3>  c;
    bit<5>  d;
    int<6>  e;
    bit<13> f;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.a = ~hdr.data.a;
        hdr.data.b = hdr.data.b + 1;
        hdr.data.c = hdr.data.c - 1;
        hdr.data.d = hdr.data.d << 1;
        hdr.data.e = -hdr.data.e;
        hdr.data.f = hdr.data.f | 0x1001;
    }
}

PROGRAM;
