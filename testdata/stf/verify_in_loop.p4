// verify ends the parser at once; what came before it stays extracted (section 13.7).
error { TooDeep }
header data_t { bit<8> code; }
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[4] items;
}
struct metadata_t { bit<8> depth; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.depth = 0;
        transition item;
    }
    state item {
        packet.extract(hdr.items.next);
        meta.depth = meta.depth + 1;
        verify(meta.depth < 3, error.TooDeep);
        transition select(hdr.items.last.value) {
            0: accept;
            default: item;
        }
    }
}

INGRESS {
    apply {
        hdr.data.code = meta.depth;
        if (standard_metadata.parser_error == error.TooDeep) { hdr.data.code = hdr.data.code + 0xe0; }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
