// An index that calls something is computed once, before the right side, also in `+=`.
header data_t {
    bit<8> i;
    bit<8> calls;
}
header item_t { bit<8> v; }
struct headers_t {
    data_t    data;
    item_t[4] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

bit<8> step(inout bit<8> i, inout bit<8> calls) {
    bit<8> before = i;
    i = i + 1;
    calls = calls + 1;
    return before;
}

INGRESS {
    apply {
        hdr.items[step(hdr.data.i, hdr.data.calls) & 3].v += 0x10;
        hdr.items[hdr.data.i & 3].v = step(hdr.data.i, hdr.data.calls);
        hdr.items[step(hdr.data.i, hdr.data.calls) & 3].v = hdr.data.i;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
