// @name for tables, actions and keys; @tableonly and @defaultonly actions (sections 18.3.2, 20.3.2).
header data_t {
    bit<8> a;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    @name("paint") action set(bit<8> value) { hdr.data.result = value; }
    action fallback() { hdr.data.result = 0xfb; }
    @name(".global_table") table t {
        key = { hdr.data.a: exact @name("which"); }
        actions = { @tableonly set; @defaultonly fallback; }
        const default_action = fallback();
    }
    apply { t.apply(); }
}

PROGRAM;
