// A test, also as the left side of `&&`, and an early return.
#include "../prelude.p4"

INGRESS {
    apply {
        if (hdr.word.isValid() && hdr.word.a == 1) { meta.y = hdr.word.b; }
        if (!hdr.word.isValid()) { return; }
        meta.x = hdr.word.a;
    }
}

PROGRAM(Tested(), NoEgress());
