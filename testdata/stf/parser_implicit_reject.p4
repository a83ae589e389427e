// A select without default in which nothing fits (section 13.6). The specification says NoMatch and reject;
// simple_switch goes on to ingress without an error, and so do we.
header data_t {
    bit<8> kind;
    bit<8> seen;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            1: accept;
            2: accept;
        }
    }
}

INGRESS {
    apply {
        hdr.data.seen = standard_metadata.parser_error == error.NoMatch ? 8w0xee : 1;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
