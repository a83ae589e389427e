// truncate cuts what leaves to so many bytes; a length beyond the packet's changes nothing (v1model).
header data_t {
    bit<8>  length;
    bit<8>  where;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS { apply { if (hdr.data.where == 0) { truncate((bit<32>) hdr.data.length); } } }

EGRESS { apply { if (hdr.data.where == 1) { truncate((bit<32>) hdr.data.length); } } }

SWITCH(TestParser, TestIngress, TestEgress);
