// switch on action_run: fall through, default, no match in the labels (section 12.7.1).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action one() { }
    action two() { }
    action three(bit<8> x) { hdr.data.b = x; }
    action four() { }
    table t {
        key = { hdr.data.a: exact; }
        actions = { one; two; three; four; }
        default_action = four();
    }
    apply {
        hdr.data.b = 0xff;
        switch (t.apply().action_run) {
            one:
            two: { hdr.data.b = 0x12; }
            three: { hdr.data.b = hdr.data.b + 1; }
            default: { hdr.data.b = 0xdd; }
        }
    }
}

PROGRAM;
