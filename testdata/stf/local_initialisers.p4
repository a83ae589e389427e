// Local variables are initialised anew for each packet, before apply; constants of structs (sections 11.1, 11.2, 14).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { bit<8> left_over; }
struct limits_t {
    bit<8> low;
    bit<8> high;
}
const limits_t LIMITS = { low = 0x10, high = 0x20 };
#include "include/one_header.p4"

INGRESS {
    bit<8> count = 5;
    bit<8> doubled = hdr.data.a + hdr.data.a;
    apply {
        count = count + 1;
        meta.left_over = meta.left_over + count;
        hdr.data.b = meta.left_over;
        if (hdr.data.a >= LIMITS.low && hdr.data.a < LIMITS.high) { hdr.data.a = doubled; }
    }
}

PROGRAM;
