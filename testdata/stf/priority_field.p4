// standard_metadata.priority of every value, where there are queues for it (v1model).
header data_t {
    bit<8> priority;
    bit<8> qdepth;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS { apply { standard_metadata.priority = hdr.data.priority[2:0]; } }

EGRESS {
    apply {
        hdr.data.qdepth = (bit<8>) standard_metadata.deq_qdepth;
        if (standard_metadata.priority != hdr.data.priority[2:0]) { hdr.data.priority = 0xee; }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
