// A table's action writes what the next table matches on; the second applies on a condition (section 14.2.3).
header data_t {
    bit<16> address;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t {
    bit<12> group;
    bool    known;
}
#include "include/one_header.p4"

INGRESS {
    action classify(bit<12> group) {
        meta.group = group;
        meta.known = true;
    }
    action set(bit<8> value) { hdr.data.result = value; }
    table groups { key = { hdr.data.address: ternary; } actions = { classify; NoAction; } default_action = NoAction(); }
    table results { key = { meta.group: exact; } actions = { set; NoAction; } default_action = set(0xee); }
    apply {
        meta.known = false;
        meta.group = 0;
        groups.apply();
        if (meta.known) { results.apply(); }
    }
}

PROGRAM;
