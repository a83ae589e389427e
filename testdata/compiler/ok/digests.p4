// A digest of a named struct.
#include "../prelude.p4"

struct seen_t {
    bit<48> mac;
    bit<9>  port;
}

INGRESS {
    apply {
        digest<seen_t>(1, { hdr.ethernet.src_addr, standard_metadata.ingress_port });
    }
}

PROGRAM(Tested(), NoEgress());
