// Stacks: push, pop, an index known at run time.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.words.push_front(1);
        hdr.words.pop_front(2);
        hdr.words[hdr.word.c].a = 7;
        meta.x = hdr.words[hdr.word.c].a + hdr.words.size;
    }
}

PROGRAM(Tested(), NoEgress());
