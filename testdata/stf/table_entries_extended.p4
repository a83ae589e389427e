// Entries that are not constant stand beside those of the control plane (section 14.2.1.4).
header data_t {
    bit<8> a;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = { hdr.data.a: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        size = 8;
        entries = {
            1: set(0x11);
            const 2: set(0x22);
        }
    }
    apply { t.apply(); }
}

PROGRAM;
