#include <core.p4>
#include <v1model.p4>

struct headers_t { }
struct meta_t { bit<8> x; }

control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    apply {
        standard_metadata.egress_spec = 1;
        meta.x = 1;
    }
}
