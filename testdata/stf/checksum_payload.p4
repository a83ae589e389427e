// Checksums with the payload: it follows the listed fields, an odd byte at its end is filled up (v1model).
header data_t {
    bit<16> a;
    bit<16> checksum;
    bit<8>  seen;
    bit<8>  zero;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

CHECKSUM(Verify) {
    apply {
        verify_checksum_with_payload(true, { hdr.data.a }, hdr.data.checksum, HashAlgorithm.csum16);
    }
}

INGRESS {
    apply {
        hdr.data.seen = standard_metadata.checksum_error == 1 ? 8w0xee : 1;
        hdr.data.a = hdr.data.a + 1;
    }
}

CHECKSUM(Update) {
    apply {
        update_checksum_with_payload(true, { hdr.data.a }, hdr.data.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), NoEgress(), Update(), EmitAll()) main;
