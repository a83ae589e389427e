// `...`: all or the remaining fields with their type's default (sections 7.3, 8.27).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> valid;
}
struct headers_t {
    data_t data;
    data_t extra;
}
struct triple_t {
    bit<8> a;
    bit<8> b;
    bool   c;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        triple_t all = ...;
        triple_t some = { a = hdr.data.a, ... };
        hdr.data.b = all.a + all.b + (all.c ? 8w1 : 0);
        hdr.data.c = some.a + some.b + (some.c ? 8w1 : 0);
        hdr.extra.setValid();
        hdr.extra = ...;
        hdr.data.valid = hdr.extra.isValid() ? 8w1 : 0;
    }
}

PROGRAM;
