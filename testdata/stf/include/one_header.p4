// A parser that extracts hdr.data and nothing else, and the blocks that a test does not care for.
// Included after headers_t, which has a header `data`, and metadata_t.
#include "blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

#define PROGRAM SWITCH(TestParser, TestIngress, NoEgress)
