// mark_to_drop in ingress; a later egress_spec takes it back (v1model).
header data_t { bit<8> a; }
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        standard_metadata.egress_spec = 2;
        if (hdr.data.a & 1 != 0) { mark_to_drop(standard_metadata); }
        if (hdr.data.a & 2 != 0) { standard_metadata.egress_spec = 3; }
        if (hdr.data.a & 4 != 0) { hdr.data.a = (bit<8>) standard_metadata.egress_spec; }
    }
}

PROGRAM;
