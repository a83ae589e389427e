// What v1model tells of a packet: ports, length, instance type, in ingress and in egress (v1model).
header data_t {
    bit<8>  ingress_port;
    bit<8>  egress_port;
    bit<16> length;
    bit<16> egress_length;
    bit<8>  instance_type;
    bit<8>  times;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.ingress_port = (bit<8>) standard_metadata.ingress_port;
        hdr.data.length = (bit<16>) standard_metadata.packet_length;
        hdr.data.instance_type = (bit<8>) standard_metadata.instance_type;
        standard_metadata.egress_spec = standard_metadata.ingress_port + 1;
    }
}

EGRESS {
    apply {
        hdr.data.egress_port = (bit<8>) standard_metadata.egress_port;
        hdr.data.egress_length = (bit<16>) standard_metadata.packet_length;
        bit<48> ingress_time = standard_metadata.ingress_global_timestamp;
        bit<48> queue_time = (bit<48>) standard_metadata.enq_timestamp;
        bit<48> egress_time = standard_metadata.egress_global_timestamp;
        hdr.data.times = ingress_time <= queue_time && queue_time <= egress_time ? 8w1 : 0;
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
