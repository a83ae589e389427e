#include "../prelude.p4"

INGRESS {
    register<bit<32>>(4) r;
    apply {
        r.rread(meta.x, 0);
        r.read(hdr.word.b, 0);
    }
}

PROGRAM(Tested(), NoEgress());
