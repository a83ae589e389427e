// `_` for an out parameter: of extract, of a function and of an extern.
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/blocks.p4"

bit<8> divide(in bit<8> value, out bit<8> rest) {
    rest = value & 3;
    return value >> 2;
}

PARSER {
    state start {
        packet.extract<data_t>(_);
        packet.extract(hdr.data);
        transition accept;
    }
}

INGRESS {
    register<bit<8>>(1) cell;
    apply {
        hdr.data.b = divide(hdr.data.a, _);
        cell.read(_, 0);
        random(_, 8w0, 8w1);
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
