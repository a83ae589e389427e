// Optional keys: a value or anything (v1model).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = { hdr.data.a: optional; hdr.data.b: optional; }
        actions = { set; }
        default_action = set(0);
    }
    apply { t.apply(); }
}

PROGRAM;
