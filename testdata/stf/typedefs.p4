// typedef is another name for the same type (section 7.5).
typedef bit<16> port_number_t;
typedef port_number_t service_t;
header data_t {
    port_number_t from;
    service_t     to;
}
typedef data_t ports_t;
struct headers_t { ports_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        service_t swap = hdr.data.from;
        hdr.data.from = hdr.data.to;
        hdr.data.to = swap + (bit<16>) 1;
    }
}

PROGRAM;
