// exit copies out every call and control that it leaves, innermost first, where the arguments are slices, where two are
// one, where a control is applied twice, and from a table's action (sections 6.8, 12.5).
header data_t {
    bit<8>  what;
    bit<16> x;
    bit<16> y;
    bit<8>  n;
    bit<64> rest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

// Leaves when `n` is 0, else counts it down.
control Count(out bit<8> mark, inout bit<8> n) {
    apply {
        mark = 0xaa;
        if (n == 0) { exit; }
        mark = 0x55;
        n = n - 1;
    }
}

control Nested(inout bit<12> whole, inout bit<8> n) {
    Count() count;
    apply {
        whole[11:8] = 1;
        count.apply(whole[7:0], n);
        whole[11:8] = 2;
    }
}

control Loop(inout bit<8> sum, inout bit<8> n) {
    apply {
        for (bit<8> i = 0; i < 4; i = i + 1) {
            sum = sum + 16;
            if (i == n) { exit; }
        }
        sum = 0;
    }
}

control InAction(out bit<8> mark, in bit<8> n) {
    action leave(bit<8> value) { mark = value; exit; }
    table t {
        key = { n: exact; }
        actions = { leave; NoAction; }
        const entries = { 0: leave(0x77); }
    }
    apply {
        mark = 1;
        t.apply();
        mark = 2;
    }
}

control Two(inout bit<8> a, inout bit<8> b) {
    apply {
        a = a + 1;
        b = b + 2;
        if (a == 1) { exit; }
    }
}

INGRESS {
    Count() count;
    Count() twice;
    Nested() nested;
    Loop() loop;
    InAction() in_action;
    Two() two;
    apply {
        switch (hdr.data.what) {
            0: { count.apply(hdr.data.x[11:4], hdr.data.n); }
            1: { nested.apply(hdr.data.x[12:1], hdr.data.n); }
            2: { loop.apply(hdr.data.y[15:8], hdr.data.n); }
            3: { in_action.apply(hdr.data.y[8:1], hdr.data.n); }
            4: { two.apply(hdr.data.n, hdr.data.n); }
            5: {
                twice.apply(hdr.data.x[15:8], hdr.data.n);
                twice.apply(hdr.data.x[7:0], hdr.data.n);
            }
        }
        hdr.data.rest = 1;
    }
}

PROGRAM;
