// Ternary keys: masks, keys left out, the higher priority wins (section 14.2.1).
header data_t {
    bit<16> a;
    bit<8>  b;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = { hdr.data.a: ternary; hdr.data.b: ternary; }
        actions = { set; }
        default_action = set(0);
    }
    apply { t.apply(); }
}

PROGRAM;
