// No header at all: the payload passes unchanged, an empty frame as well (section 16.1).
header data_t { bit<8> a; }
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start { transition accept; }
}

INGRESS { apply { standard_metadata.egress_spec = 3; } }

SWITCH(TestParser, TestIngress, NoEgress);
