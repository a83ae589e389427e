// A sub-parser with a constructor parameter; its reject ends the caller (sections 13.10, 15).
header data_t { bit<8> kind; }
header item_t { bit<8> value; }
struct headers_t {
    data_t data;
    item_t a;
    item_t b;
}
struct metadata_t { }
#include "include/blocks.p4"

parser Wanted(packet_in packet, out item_t item)(bit<8> value) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            value: take;
            0xee: reject;
            default: accept;
        }
    }
    state take {
        packet.extract(item);
        transition accept;
    }
}

PARSER {
    Wanted(0x0a) first;
    Wanted(0x0b) second;
    state start {
        packet.extract(hdr.data);
        first.apply(packet, hdr.a);
        second.apply(packet, hdr.b);
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.data.kind = (hdr.a.isValid() ? 8w1 : 0) | (hdr.b.isValid() ? 8w2 : 0);
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
