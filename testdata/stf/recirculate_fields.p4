// recirculate: the packet as it leaves egress, from the parser on, with the fields of the list (v1model).
header data_t {
    bit<8> rounds;
    bit<8> kept;
    bit<8> instance_type;
}
struct headers_t { data_t data; }
struct metadata_t {
    @field_list(1, 2) bit<8> kept;
    @field_list(2) bit<8> more;
}
#include "include/one_header.p4"

INGRESS {
    apply {
        standard_metadata.egress_spec = 3;
        meta.kept = meta.kept + 1;
        hdr.data.instance_type = (bit<8>) standard_metadata.instance_type;
    }
}

EGRESS {
    apply {
        meta.more = meta.more + 0x10;
        hdr.data.kept = meta.kept + meta.more;
        if (hdr.data.rounds != 0) {
            hdr.data.rounds = hdr.data.rounds - 1;
            recirculate_preserving_field_list(2);
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
