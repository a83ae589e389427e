// hash over fields and constants, random.
#include "../prelude.p4"

INGRESS {
    apply {
        hash(meta.y, HashAlgorithm.crc16, 16w0, { hdr.word.a, hdr.word.b, 8w3 }, 16w100);
        random(meta.x, 1, 6);
    }
}

PROGRAM(Tested(), NoEgress());
