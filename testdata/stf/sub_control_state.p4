// Each instance of a control has registers and tables of its own (sections 6.6.2, 18.3).
header data_t {
    bit<8> which;
    bit<8> count;
    bit<8> set;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Counting(inout data_t data) {
    register<bit<8>>(1) seen;
    action set(bit<8> value) { data.set = value; }
    table t {
        key = { data.which: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply {
        bit<8> n;
        seen.read(n, 0);
        n = n + 1;
        seen.write(0, n);
        data.count = n;
        t.apply();
    }
}

INGRESS {
    Counting() left;
    Counting() right;
    apply {
        if (hdr.data.which < 0x10) { left.apply(hdr.data); } else { right.apply(hdr.data); }
    }
}

PROGRAM;
