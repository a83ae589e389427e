// Entries that a control plane may change, with priorities: given, following from the one before
// in steps of priority_delta, and the smallest winning where the table says so; @priority ranks
// constant entries.
header data_t {
    bit<8> k;
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set_a(bit<8> v) { hdr.data.a = v; }
    action set_b(bit<8> v) { hdr.data.b = v; }
    action set_c(bit<8> v) { hdr.data.c = v; }
    table largest {
        key = { hdr.data.k: ternary; }
        actions = { set_a; NoAction; }
        default_action = NoAction;
        priority_delta = 10;
        entries = {
            const priority = 20: 0x10 &&& 0xf0: set_a(1);
            0x11: set_a(2);
            priority = 30: 0x12: set_a(3);
        }
    }
    table smallest {
        key = { hdr.data.k: ternary; }
        actions = { set_b; NoAction; }
        default_action = NoAction;
        largest_priority_wins = false;
        entries = {
            priority = 20: 0x10 &&& 0xf0: set_b(1);
            0x11: set_b(2);
            priority = 10: 0x12: set_b(3);
        }
    }
    table ranked {
        key = { hdr.data.k: ternary; }
        actions = { set_c; NoAction; }
        default_action = NoAction;
        const entries = {
            0x10 &&& 0xf0: set_c(1) @priority(3);
            0x11: set_c(2) @priority(2);
            0x12 &&& 0xfe: set_c(3) @priority(9);
        }
    }
    apply {
        largest.apply();
        smallest.apply();
        ranked.apply();
    }
}

PROGRAM;
