// Tables applied inside expressions, in the order of evaluation: an operand that is read before a
// table keeps its value, a branch that is not taken applies nothing, a key may apply a table.
header data_t {
    bit<8> k;
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> twice(in bit<8> value) { return value + value; }

INGRESS {
    action change() { hdr.data.a = 0x50; }
    table first {
        key = { hdr.data.k: exact; }
        actions = { change; NoAction; }
        const default_action = NoAction;
        const entries = { 1: change(); 2: change(); }
    }
    table second {
        key = { hdr.data.k: exact; }
        actions = { change; NoAction; }
        const default_action = NoAction;
        const entries = { 3: change(); }
    }
    table third {
        key = { second.apply().hit: exact @name("hit"); }
        actions = { change; NoAction; }
        const default_action = NoAction;
        const entries = { false: NoAction(); }
    }
    apply {
        hdr.data.b = hdr.data.a + twice(first.apply().hit ? 8w1 : 8w2);
        if (hdr.data.k != 2 && third.apply().hit) {
            hdr.data.b = hdr.data.b + 0x10;
        }
    }
}

PROGRAM;
