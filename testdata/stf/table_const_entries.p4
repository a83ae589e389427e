// const entries of a ternary table: the first that matches wins (section 14.2.1.4).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
const bit<8> LOW = 0x0f;
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table t {
        key = { hdr.data.a: ternary; hdr.data.b: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            (0x10 &&& 0xf0, 1): set(1);
            (0x11, 1): set(2);
            (_, 2): set(LOW + 1);
            (0x03 &&& LOW, 1): set(4);
            (default, 3): NoAction();
        }
    }
    apply { t.apply(); }
}

PROGRAM;
