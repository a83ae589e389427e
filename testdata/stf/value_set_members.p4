// A value set with members: values, and masks (section 13.11).
header data_t {
    bit<16> kind;
    bit<8>  seen;
}
struct headers_t { data_t data; }
struct metadata_t { bit<8> path; }
#include "include/blocks.p4"

PARSER {
    value_set<bit<16>>(4) tunnels;
    value_set<bit<16>>(4) trunks;
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            tunnels: tunnel;
            0x8100: fixed;
            trunks: trunk;
            default: other;
        }
    }
    state tunnel { meta.path = 1; transition accept; }
    state fixed { meta.path = 2; transition accept; }
    state trunk { meta.path = 3; transition accept; }
    state other { meta.path = 4; transition accept; }
}

INGRESS { apply { hdr.data.seen = meta.path; } }

SWITCH(TestParser, TestIngress, NoEgress);
