// Entries with priorities of their own: the largest wins unless the table says otherwise (section 14.2.1.4).
header data_t {
    bit<8> a;
    bit<8> largest;
    bit<8> smallest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set_largest(bit<8> value) { hdr.data.largest = value; }
    action set_smallest(bit<8> value) { hdr.data.smallest = value; }
    table largest {
        key = { hdr.data.a: ternary; }
        actions = { set_largest; }
        const default_action = set_largest(0);
        entries = {
            const priority = 10: 0x80 &&& 0x80: set_largest(1);
            const priority = 30: 0xf0 &&& 0xf0: set_largest(2);
            const priority = 20: 0x01 &&& 0x01: set_largest(3);
        }
    }
    table smallest {
        key = { hdr.data.a: ternary; }
        actions = { set_smallest; }
        const default_action = set_smallest(0);
        largest_priority_wins = false;
        entries = {
            priority = 10: 0x80 &&& 0x80: set_smallest(1);
            priority = 30: 0xf0 &&& 0xf0: set_smallest(2);
            priority = 20: 0x01 &&& 0x01: set_smallest(3);
        }
    }
    apply {
        largest.apply();
        smallest.apply();
    }
}

PROGRAM;
