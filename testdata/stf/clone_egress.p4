// clone E2E: the copy is the packet as it leaves egress, with instance type 2, and passes egress itself (v1model).
header data_t {
    bit<8> a;
    bit<8> instance_type;
}
struct headers_t { data_t data; }
struct metadata_t {
    @field_list(3) bit<8> kept;
    bit<8> lost;
}
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.kept = 4;
        meta.lost = 4;
        standard_metadata.egress_spec = 2;
    }
}

EGRESS {
    apply {
        if (standard_metadata.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, 5, 3);
        }
        hdr.data.a = hdr.data.a + meta.kept + meta.lost;
        hdr.data.instance_type = (bit<8>) standard_metadata.instance_type;
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
