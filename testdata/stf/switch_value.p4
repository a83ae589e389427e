// switch on numbers, serializable enums and an expression; no label matches and no default (section 12.7.2).
enum bit<8> Kind { A = 1, B = 2, C = 3 }
header data_t {
    bit<8> a;
    Kind   kind;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        switch (hdr.data.a + 1) {
            1: { hdr.data.b = 0x11; }
            2:
            3: { hdr.data.b = 0x23; }
            0xff: { hdr.data.b = 0xfe; }
        }
        switch (hdr.data.kind) {
            Kind.A: { hdr.data.c = 0xaa; }
            Kind.B: {
                switch (hdr.data.a) {
                    7: { hdr.data.c = 0xb7; }
                    default: { hdr.data.c = 0xbb; }
                }
            }
            default: { hdr.data.c = 0xdd; }
        }
    }
}

PROGRAM;
