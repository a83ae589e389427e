// verify_checksum sets checksum_error, update_checksum writes the Internet checksum, both on a condition (v1model).
header data_t {
    bit<16> a;
    bit<16> checksum;
    bit<8>  command;
    bit<8>  seen;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

CHECKSUM(Verify) {
    apply {
        verify_checksum(hdr.data.command != 2, { hdr.data.a, hdr.data.command, hdr.data.seen },
                        hdr.data.checksum, HashAlgorithm.csum16);
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
        update_checksum(hdr.data.command != 3, { hdr.data.a, hdr.data.command, hdr.data.seen },
                        hdr.data.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), NoEgress(), Update(), EmitAll()) main;
