// && and || do not evaluate their right side when the left decides (section 8.5).
header data_t {
    bit<8> a;
    bit<8> result;
    bit<8> calls;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bool is_odd(in bit<8> value, inout bit<8> calls) {
    calls = calls + 1;
    return value[0:0] == 1;
}

INGRESS {
    apply {
        bit<8> calls = 0;
        bool both = hdr.data.a > 4 && is_odd(hdr.data.a, calls);
        bool any = hdr.data.a > 8 || is_odd(hdr.data.a, calls);
        bool neither = !(both || any);
        hdr.data.result = (neither ? 8w4 : 0) | (both ? 8w2 : 0) | (any ? 8w1 : 0);
        hdr.data.calls = calls;
    }
}

PROGRAM;
