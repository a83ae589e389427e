// Structs: nested, copied whole, compared, structure-valued expressions, initialisers (sections 7.2.5, 8.14, 8.17).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> equal;
}
struct headers_t { data_t data; }
struct pair_t {
    bit<8> first;
    bit<8> second;
}
struct nest_t {
    pair_t left;
    pair_t right;
}
struct metadata_t { nest_t nest; }
#include "include/one_header.p4"

INGRESS {
    apply {
        pair_t both = { first = hdr.data.a, second = hdr.data.b };
        meta.nest = { both, { second = 9, first = hdr.data.a } };
        hdr.data.equal = both == meta.nest.right ? 8w1 : 0;
        meta.nest.right = meta.nest.left;
        hdr.data.equal = hdr.data.equal | (both == meta.nest.right ? 8w2 : 0);
        meta.nest.left.first = 0x40;
        if (meta.nest.left != meta.nest.right) { hdr.data.equal = hdr.data.equal | 4; }
        hdr.data.c = meta.nest.right.first + meta.nest.right.second;
    }
}

PROGRAM;
