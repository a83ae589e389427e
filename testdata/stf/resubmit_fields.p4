// resubmit: the packet as it came, once more through the parser and ingress, with the fields of the list (v1model).
header data_t {
    bit<8> a;
    bit<8> kept;
    bit<8> lost;
}
struct headers_t { data_t data; }
struct metadata_t {
    @field_list(1) bit<8> kept;
    @field_list(2) bit<8> other;
    bit<8> lost;
}
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.a = hdr.data.a + 1;
        hdr.data.kept = meta.kept;
        hdr.data.lost = meta.lost + meta.other;
        if (standard_metadata.instance_type == 0) {
            meta.kept = 5;
            meta.lost = 6;
            meta.other = 7;
            resubmit_preserving_field_list(1);
        } else if (standard_metadata.instance_type == 6) {
            standard_metadata.egress_spec = 3;
        }
    }
}

PROGRAM;
