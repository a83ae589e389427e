// A serializable enum in a header: casts both ways, values without a name (sections 7.2.1, 8.3).
enum bit<8> Kind {
    REQUEST = 1,
    REPLY = 2,
    ERROR = 0xff
}
header data_t {
    Kind   kind;
    bit<8> code;
    bit<8> raw;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.raw = (bit<8>) hdr.data.kind + 1;
        if (hdr.data.kind == Kind.REQUEST) {
            hdr.data.kind = Kind.REPLY;
        } else if (hdr.data.kind == Kind.REPLY) {
            hdr.data.kind = (Kind) hdr.data.code;
        } else {
            hdr.data.kind = Kind.ERROR;
        }
    }
}

PROGRAM;
