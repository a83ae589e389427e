// Slices as inout and out arguments: the bits around them stay, an index is read before the call,
// and what the callee does to the whole field is lost where the slice is written back.
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> i;
}
header item_t { bit<8> v; }
struct headers_t {
    data_t    data;
    item_t[2] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

void next(inout bit<4> value) { value = value + 1; }
void set(out bit<8> value, inout bit<8> index) {
    index = index + 1;
    value = 0x77;
}

INGRESS {
    action shift(inout bit<4> value) {
        hdr.data.b = 0xff;
        value = value << 1;
    }
    apply {
        next(hdr.data.a[7:4]);
        next(hdr.data.a[5:0][4:1]);
        shift(hdr.data.b[5:2]);
        set(hdr.items[hdr.data.i].v, hdr.data.i);
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
