// log_msg with and without values, assert, assume.
#include "../prelude.p4"

INGRESS {
    apply {
        log_msg("here");
        log_msg("a = {}, c = {}", { hdr.word.a, hdr.word.c });
        assert(hdr.word.c < 200);
        assume(meta.flag);
    }
}

PROGRAM(Tested(), NoEgress());
