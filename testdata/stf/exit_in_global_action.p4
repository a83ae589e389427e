// `exit` in an action of no control copies out the arguments of each control that it leaves, also where another control
// had the action first, and where the action is called (sections 6.8, 12.5).
header data_t {
    bit<8>  what;
    bit<16> a;
    bit<16> b;
    bit<8>  behind;
    bit<80> rest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

action leave() { exit; }

control Plain(in bit<8> what) {
    table t {
        key = { what: exact; }
        actions = { leave; NoAction; }
        const entries = { 0: leave(); }
    }
    apply { t.apply(); }
}

control First(in bit<8> what, out bit<8> x) {
    table t {
        key = { what: exact; }
        actions = { leave; NoAction; }
        const entries = { 1: leave(); }
    }
    apply {
        x = 0x11;
        t.apply();
        x = 0x12;
    }
}

control Second(in bit<8> what, inout bit<8> x, out bit<8> y) {
    First() first;
    table t {
        key = { what: exact; }
        actions = { leave; NoAction; }
        const entries = { 2: leave(); }
    }
    apply {
        x = x + 1;
        y = 0x21;
        t.apply();
        y = 0x22;
        first.apply(what - 2, y);
        x = x + 1;
    }
}

control Called(in bit<8> what, out bit<8> x) {
    apply {
        x = 0x31;
        if (what == 4) { leave(); }
        x = 0x32;
    }
}

INGRESS {
    Plain() plain;
    First() first;
    Second() second;
    Called() called;
    apply {
        plain.apply(hdr.data.what);
        first.apply(hdr.data.what, hdr.data.a[11:4]);
        second.apply(hdr.data.what, hdr.data.a[11:4], hdr.data.b[11:4]);
        called.apply(hdr.data.what, hdr.data.b[11:4]);
        hdr.data.behind = 1;
    }
}

PROGRAM;
