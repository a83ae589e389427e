// digest tells the control plane and leaves the packet as it is (v1model).
header data_t {
    bit<8>  a;
    bit<16> b;
}
struct headers_t { data_t data; }
struct metadata_t { bit<9> port; }
struct learn_t {
    bit<8> a;
    bit<9> port;
}
#include "include/one_header.p4"

INGRESS {
    apply {
        if (hdr.data.a != 0) {
            digest<learn_t>(1, { hdr.data.a, standard_metadata.ingress_port });
        }
        hdr.data.b = hdr.data.b + 1;
    }
}

PROGRAM;
