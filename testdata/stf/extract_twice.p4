// extract over a valid header takes the new bytes; extract to `_` skips a header (section 13.8.1).
header data_t { bit<8> a; }
header pad_t { bit<16> nothing; }
struct headers_t { data_t data; }
struct metadata_t { bit<8> first; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        meta.first = hdr.data.a;
        packet.extract<pad_t>(_);
        packet.extract(hdr.data);
        transition accept;
    }
}

INGRESS { apply { hdr.data.a = hdr.data.a + meta.first; } }

SWITCH(TestParser, TestIngress, NoEgress);
