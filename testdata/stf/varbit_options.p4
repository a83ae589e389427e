// A header with a varbit of a length known at run time: extract with two arguments, emit (sections 13.8.2, 8.11).
header data_t {
    bit<4>      n_words;
    bit<4>      flags;
    bit<8>      check;
    varbit<120> options;
}
header after_t { bit<8> value; }
struct headers_t {
    data_t  data;
    after_t after;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data, (bit<32>) packet.lookahead<bit<4>>() * 8);
        packet.extract(hdr.after);
        transition accept;
    }
}

INGRESS {
    apply {
        hdr.data.check = hdr.data.check + 1;
        if (hdr.after.isValid()) { hdr.after.value = 0x77; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
