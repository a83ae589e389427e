// A clone session to a multicast group: a copy a replica (v1model).
header data_t {
    bit<8> a;
    bit<8> rid;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        clone(CloneType.I2E, 9);
        mark_to_drop(standard_metadata);
    }
}

EGRESS { apply { hdr.data.rid = (bit<8>) standard_metadata.egress_rid; } }

SWITCH(TestParser, TestIngress, TestEgress);
