// clone I2E: the copy is the packet as it came, with instance type 1, whatever becomes of the original (v1model).
header data_t {
    bit<8> a;
    bit<8> instance_type;
}
struct headers_t { data_t data; }
struct metadata_t { bit<8> lost; }
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.lost = 9;
        if (hdr.data.a != 0) { clone(CloneType.I2E, (bit<32>) hdr.data.a); }
        hdr.data.a = 0x77;
        standard_metadata.egress_spec = 2;
        if (hdr.data.instance_type == 0xff) { mark_to_drop(standard_metadata); }
    }
}

EGRESS {
    apply {
        hdr.data.instance_type = (bit<8>) standard_metadata.instance_type;
        if (meta.lost == 9) { hdr.data.instance_type = hdr.data.instance_type + 0x10; }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
