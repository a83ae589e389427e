// log_msg with and without values, with a whole header, assert, assume.
#include "../prelude.p4"

INGRESS {
    apply {
        log_msg("here");
        log_msg("a = {}, c = {}", { hdr.word.a, hdr.word.c });
        log_msg("word = {}, flag = {}", { hdr.word, meta.flag });
        assert(hdr.word.c < 200);
        assume(meta.flag);
    }
}

PROGRAM(Tested(), NoEgress());
