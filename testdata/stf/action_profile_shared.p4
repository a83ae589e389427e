// Two tables share an action profile: a member that changes one would change the other. Each goes
// on by its own arrows, one by its hit, the other by the action that ran.
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> seen;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action_profile(8) shared;
    action add(bit<8> value) { hdr.data.seen = hdr.data.seen + value; }
    action mark() { hdr.data.seen = hdr.data.seen | 0x80; }
    table first {
        key = { hdr.data.a: exact; }
        actions = { add; mark; }
        implementation = shared;
    }
    table second {
        key = { hdr.data.b: exact; }
        actions = { add; mark; }
        const default_action = mark();
        implementation = shared;
    }
    apply {
        if (first.apply().hit) {
            hdr.data.a = 0x11;
        }
        switch (second.apply().action_run) {
            add: { hdr.data.b = 0x22; }
            mark: { hdr.data.b = 0x33; }
        }
    }
}

PROGRAM;
