// apply().hit and apply().miss in conditions and as values (section 14.2.2).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action nothing() { }
    table one { key = { hdr.data.a: exact; } actions = { nothing; } const default_action = nothing(); }
    table two { key = { hdr.data.b: exact; } actions = { nothing; } const default_action = nothing(); }
    table three { key = { hdr.data.b: exact; } actions = { nothing; } const default_action = nothing(); }
    apply {
        hdr.data.result = 0;
        if (one.apply().hit) {
            hdr.data.result = 1;
        } else if (two.apply().miss) {
            hdr.data.result = 2;
        }
        bool found = three.apply().hit;
        if (found) { hdr.data.result = hdr.data.result + 0x10; }
    }
}

PROGRAM;
