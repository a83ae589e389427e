// When the values of a digest are taken and which of several counts; what becomes of it where the packet is dropped,
// copied, or changed in egress (v1model).
header data_t {
    bit<8>  asks;
    bit<8>  a;
    bit<72> wide;
    int<32> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
struct first_t {
    bit<8>  a;
    bit<72> wide;
    bit<9>  port;
}
struct second_t { int<32> b; }
#include "include/one_header.p4"

const bit<8> FIRST = 1;
const bit<8> SECOND = 2;
const bit<8> DROP = 4;
const bit<8> FAIL = 8;
const bit<8> GROUP = 16;
const bit<8> REGISTER = 32;

INGRESS {
    register<bit<8>>(1) last;
    apply {
        assert(hdr.data.isValid());
        if (hdr.data.asks & FIRST != 0) {
            digest<first_t>(1, { hdr.data.a, hdr.data.wide, standard_metadata.ingress_port });
        }
        if (hdr.data.asks & SECOND != 0) {
            digest<second_t>(1, { hdr.data.b });
        }
        hdr.data.a = hdr.data.a + 1;
        if (hdr.data.asks & GROUP != 0) {
            standard_metadata.mcast_grp = 1;
        }
        if (hdr.data.asks & DROP != 0) {
            mark_to_drop(standard_metadata);
        }
        if (hdr.data.asks & REGISTER != 0) {
            last.write(0, hdr.data.a);
        }
        assert(hdr.data.asks & FAIL == 0);
    }
}

EGRESS {
    apply {
        hdr.data.a = hdr.data.a + 1;
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
