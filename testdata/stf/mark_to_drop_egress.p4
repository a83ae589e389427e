// mark_to_drop in egress, and egress_port there (v1model).
header data_t {
    bit<8> a;
    bit<8> port;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS { apply { standard_metadata.egress_spec = 5; } }

EGRESS {
    apply {
        hdr.data.port = (bit<8>) standard_metadata.egress_port;
        if (hdr.data.a == 1) { mark_to_drop(standard_metadata); }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
