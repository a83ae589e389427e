// Loops in a parser: with known bounds, with bounds from the packet, and left by break. Such a
// state is one of this compiler's extensions: the grammar gives loops to controls and functions.
header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> odd;
}
header item_t { bit<8> v; }
struct headers_t {
    data_t    data;
    item_t[4] items;
}
struct metadata_t { }
#include "include/blocks.p4"

bit<8> weight(in bit<8> value) {
    if (value > 0x80) {
        return 1;
    }
    for (bit<8> i = 0; i < value; i += 1) {
        if (i == 9) { return i; }
    }
    return value;
}

PARSER {
    state start {
        packet.extract(hdr.data);
        for (bit<8> i = 0; i < hdr.data.n; i += 1) {
            if (i == 4) { break; }
            packet.extract(hdr.items.next);
            hdr.data.sum = hdr.data.sum + weight(hdr.items.last.v);
        }
        for (bit<8> i in 0 .. 3) {
            if (i[0:0] == 0) { continue; }
            hdr.data.odd = hdr.data.odd + i;
        }
        transition accept;
    }
}

SWITCH(TestParser, NoIngress, NoEgress);
