// A checksum by crc16 over a header, written in the ComputeChecksum control (v1model).
header data_t {
    bit<32> a;
    bit<16> crc;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS { apply { hdr.data.a = hdr.data.a + 1; } }

CHECKSUM(Update) {
    apply { update_checksum(hdr.data.isValid(), { hdr.data.a }, hdr.data.crc, HashAlgorithm.crc16); }
}

V1Switch(TestParser(), NoChecksum(), TestIngress(), NoEgress(), Update(), EmitAll()) main;
