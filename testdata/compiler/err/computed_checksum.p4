#include "../prelude.p4"

INGRESS { apply { } }
control Own(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.x = 1;
        verify_checksum(true, { hdr.word.a + 1 }, hdr.word.b, HashAlgorithm.csum16);
    }
}
V1Switch(TestParser(), Own(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
