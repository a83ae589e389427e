// assert and assume that hold do nothing; those that do not hold drop the packet (v1model; docs/semantics.md).
header data_t { bit<8> a; }
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        assert(hdr.data.isValid());
        assert(hdr.data.a != 1);
        assume(hdr.data.a != 2);
        hdr.data.a = hdr.data.a + 1;
    }
}

PROGRAM;
