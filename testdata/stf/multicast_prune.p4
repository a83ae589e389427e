// The usual pruning: a replica that would go back to where the packet came from is dropped in egress (v1model).
header data_t { bit<8> a; }
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS { apply { standard_metadata.mcast_grp = 1; } }

EGRESS {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
