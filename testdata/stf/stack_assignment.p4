// A stack assigned whole takes values and validity of all elements along; comparison (section 8.19).
header data_t { bit<8> a; }
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[2] left;
    item_t[2] right;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.left.next);
        transition select(hdr.data.a) {
            1: second;
            default: accept;
        }
    }
    state second {
        packet.extract(hdr.left.next);
        transition accept;
    }
}

INGRESS {
    apply {
        if (hdr.left == hdr.right) { hdr.data.a = 0x77; }
        hdr.right = hdr.left;
        if (hdr.left == hdr.right) { hdr.data.a = hdr.data.a + 0x10; }
        hdr.left[0].setInvalid();
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
