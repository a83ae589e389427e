// exit ends the pipeline, return ends the control.
#include "../prelude.p4"

control Inner(inout headers_t hdr) {
    apply {
        if (hdr.word.b == 7) { return; }
        if (hdr.word.b == 8) { exit; }
        hdr.word.b = 9;
    }
}

INGRESS {
    Inner() inner;
    apply {
        if (hdr.word.c == 0) { exit; }
        inner.apply(hdr);
        if (hdr.word.c == 1) { return; }
        meta.x = 5;
    }
}

PROGRAM(Tested(), NoEgress());
