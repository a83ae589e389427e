// A header in the metadata and one in a local variable: parsed into, never emitted (section 7.2.2).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { data_t saved; }
#include "include/one_header.p4"

INGRESS {
    apply {
        data_t local_one;
        bit<8> seen = 0;
        if (local_one.isValid()) { seen = seen | 1; }
        if (meta.saved.isValid()) { seen = seen | 2; }
        meta.saved = hdr.data;
        local_one = meta.saved;
        local_one.b = local_one.b + 1;
        if (local_one.isValid() && meta.saved.isValid()) { seen = seen | 4; }
        hdr.data = local_one;
        hdr.data.a = seen;
    }
}

PROGRAM;
