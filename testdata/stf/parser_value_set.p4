// A value set without members matches nothing (section 13.11).
header data_t {
    bit<16> kind;
    bit<8>  seen;
}
struct headers_t { data_t data; }
struct metadata_t { bit<8> path; }
#include "include/blocks.p4"

PARSER {
    value_set<bit<16>>(4) kinds;
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            0x0001: known;
            kinds: in_set;
            default: unknown;
        }
    }
    state known { meta.path = 1; transition accept; }
    state in_set { meta.path = 2; transition accept; }
    state unknown { meta.path = 3; transition accept; }
}

INGRESS { apply { hdr.data.seen = meta.path; } }

SWITCH(TestParser, TestIngress, NoEgress);
