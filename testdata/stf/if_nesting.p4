// if without else, else if, dangling else, empty branches, blocks with variables of their own (sections 12.3, 12.6).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<8> x = 1;
        if (hdr.data.a > 1)
            if (hdr.data.a > 2)
                x = 2;
            else
                x = 3;
        if (hdr.data.a == 9) { } else { x = x + 0x10; }
        {
            bit<8> y = x;
            bit<8> z = y + 1;
            x = z;
        }
        {
            bit<8> y = 0x20;
            x = x + y;
        }
        ;
        hdr.data.b = x;
    }
}

PROGRAM;
