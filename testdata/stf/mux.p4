// ?: evaluates the chosen side only, and nests (section 8.5.1).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> calls;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> tell(in bit<8> value, inout bit<8> calls) {
    calls = calls + 1;
    return value;
}

INGRESS {
    apply {
        bit<8> calls = 0;
        bit<8> chosen = hdr.data.a > 9 ? tell(1, calls)
            : (hdr.data.a > 5 ? 8w2 : tell(tell(3, calls), calls));
        hdr.data.b = chosen;
        hdr.data.calls = calls;
    }
}

PROGRAM;
