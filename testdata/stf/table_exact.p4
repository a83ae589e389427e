// An exact table: keys of several fields, hit, miss and default action with an argument (section 14.2.1).
header data_t {
    bit<8>  a;
    bit<16> b;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    action sum() { hdr.data.result = hdr.data.a + (bit<8>) hdr.data.b; }
    table t {
        key = { hdr.data.a: exact; hdr.data.b: exact @name("second"); }
        actions = { set; sum; }
        default_action = set(0xdd);
        size = 16;
    }
    apply { t.apply(); }
}

PROGRAM;
