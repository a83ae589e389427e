// Ternary, range and optional keys with constant entries.
#include "../prelude.p4"

INGRESS {
    action mark(bit<16> value) { meta.y = value; }
    table classify {
        key = {
            hdr.word.a: ternary;
            hdr.word.b: range;
            hdr.word.c: optional;
        }
        actions = { mark; NoAction; }
        const entries = {
            (0x0a000000 &&& 0xff000000, 10 .. 20, 5): mark(1);
            (7, 3, _): mark(2);
            default: mark(3);
        }
        default_action = NoAction();
    }
    apply {
        classify.apply();
    }
}

PROGRAM(Tested(), NoEgress());
