// verify_checksum under conditions.
#include "../prelude.p4"


control OwnVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.word.isValid() && hdr.word.c == 5, { hdr.word.a, hdr.word.c, 8w0 }, hdr.word.b, HashAlgorithm.csum16);
        if (meta.flag) {
            verify_checksum_with_payload(true, { hdr.word.a }, hdr.word.b, HashAlgorithm.csum16);
        }
    }
}

INGRESS { apply { } }

V1Switch(TestParser(), OwnVerify(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
