// mcast_grp: a copy a replica, with its egress_rid; an empty group and 0 (v1model).
header data_t {
    bit<8>  group;
    bit<16> rid;
    bit<8>  port;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        standard_metadata.mcast_grp = (bit<16>) hdr.data.group;
        if (hdr.data.group == 3) { mark_to_drop(standard_metadata); }
    }
}

EGRESS {
    apply {
        hdr.data.rid = standard_metadata.egress_rid;
        hdr.data.port = (bit<8>) standard_metadata.egress_port;
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
