// error constants of the program's own: stored, compared, reported by the parser (sections 7.1.2, 8.2, 13.7).
error { BadVersion, BadLength }
header data_t {
    bit<8> version;
    bit<8> length;
    bit<8> code;
}
struct headers_t { data_t data; }
struct metadata_t { error worst; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        verify(hdr.data.version == 4, error.BadVersion);
        verify(hdr.data.length >= 3 && hdr.data.length < 100, error.BadLength);
        transition accept;
    }
}

INGRESS {
    apply {
        meta.worst = standard_metadata.parser_error;
        if (meta.worst == error.NoError) {
            hdr.data.code = 0;
        } else if (meta.worst == error.BadVersion) {
            hdr.data.code = 1;
        } else if (meta.worst == error.BadLength) {
            hdr.data.code = 2;
        } else {
            hdr.data.code = 0xff;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
