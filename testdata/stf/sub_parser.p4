// A sub-parser with out and inout parameters, called twice (section 13.10).
header data_t {
    bit<8> n;
}
header item_t {
    bit<8> kind;
    bit<8> value;
}
header long_t { bit<16> value; }
struct headers_t {
    data_t data;
    item_t left;
    long_t left_long;
    item_t right;
    long_t right_long;
}
struct metadata_t { bit<8> n_long; }
#include "include/blocks.p4"

parser ItemParser(packet_in packet, out item_t item, out long_t long_item, inout bit<8> n_long) {
    state start {
        packet.extract(item);
        transition select(item.kind) {
            0xff: more;
            default: accept;
        }
    }
    state more {
        packet.extract(long_item);
        n_long = n_long + 1;
        transition accept;
    }
}

PARSER {
    ItemParser() item;
    state start {
        packet.extract(hdr.data);
        meta.n_long = 0;
        item.apply(packet, hdr.left, hdr.left_long, meta.n_long);
        transition select(hdr.data.n) {
            2: second;
            default: accept;
        }
    }
    state second {
        item.apply(packet, hdr.right, hdr.right_long, meta.n_long);
        transition accept;
    }
}

INGRESS { apply { hdr.data.n = meta.n_long; } }

SWITCH(TestParser, TestIngress, NoEgress);
