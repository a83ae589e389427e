// Range keys with both ends in, priorities between overlapping ranges (section 14.2.1, v1model).
header data_t {
    bit<16> port;
    bit<8>  kind;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = { hdr.data.port: range; hdr.data.kind: exact; }
        actions = { set; }
        default_action = set(0);
    }
    apply { t.apply(); }
}

PROGRAM;
