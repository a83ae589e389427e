// Comments of both kinds, names with underscores and keywords' look-alikes, optional trailing commas
// (sections 6.4.1, 6.4.2, 6.4.4).
header data_t {
    bit<8> apply_;        // not `apply`
    bit<8> key;           /* key, actions, state, type, entries, list
                             are names where no keyword fits */
    bit<8> _under_score_;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"
enum bit<8> Three { One = 1, Two = 2, Three = 3, }

INGRESS {
    bit<8> type = 4; bit<8> priority = 5;
    action state(in bit<8> entries) { hdr.data.key = entries + type; }
    apply {
        state(/* in the middle */ priority);
        hdr.data._under_score_ = (bit<8>) Three.Three; // "not a /* comment
        hdr.data.apply_ = 1;
    }
}

PROGRAM;
