// log_msg with and without values: the packet is not changed by it (section 7.1.5, v1model).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        log_msg("a frame: \"quoted\", a backslash \\ and a tab\t");
        log_msg("a = {}, b = {}", { hdr.data.a, hdr.data.b });
        hdr.data.a = hdr.data.a + 1;
        log_msg("sum {}", { hdr.data.a + hdr.data.b });
    }
}

PROGRAM;
