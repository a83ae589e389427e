// The keys of a table and of a `select` are evaluated in order (sections 13.6, 14.2.1): a field, a masked field and a
// header's validity have the value from before a call in a later key.
header data_t {
    bit<8>  what;
    bit<8>  a;
    bit<8>  b;
    bit<8>  result;
    bit<96> rest;
}
header other_t { bit<8> o; }
struct headers_t {
    data_t  data;
    other_t other;
}
struct metadata_t { bit<8> seen; }
#include "include/blocks.p4"

bit<8> bump(inout bit<8> value) {
    value = value + 1;
    return value;
}

bit<8> show(inout other_t other) {
    other.setValid();
    other.o = 0x77;
    return 5;
}

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.a, bump(hdr.data.a), hdr.data.a) {
            (0x10, 0x11, 0x11): before;
            (0x11, 0x11, 0x11): after;
            default: accept;
        }
    }
    state before { meta.seen = 1; transition accept; }
    state after { meta.seen = 2; transition accept; }
}

INGRESS {
    action set(bit<8> result) { hdr.data.result = result; }
    table fields {
        key = {
            hdr.data.b: exact;
            hdr.data.b & 0x0f: exact @name("low");
            bump(hdr.data.b): exact @name("bumped");
            hdr.data.b: exact @name("behind");
        }
        actions = { set; NoAction; }
        const entries = {
            (0x2f, 0x0f, 0x30, 0x30): set(1);
            (0x30, 0x00, 0x30, 0x30): set(2);
        }
    }
    table validity {
        key = {
            hdr.other.isValid(): exact @name("valid");
            show(hdr.other): exact @name("shown");
            hdr.other.isValid(): exact @name("valid_behind");
        }
        actions = { set; NoAction; }
        const entries = {
            (false, 5, true): set(3);
            (true, 5, true): set(4);
        }
    }
    apply {
        switch (hdr.data.what) {
            0: { hdr.data.result = meta.seen; }
            1: { fields.apply(); }
            2: { validity.apply(); }
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
