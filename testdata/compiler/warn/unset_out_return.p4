// A `return` before the `out` parameter has a value.
#include "../prelude.p4"

control Fill(in bool yes, out bit<8> value) {
    apply {
        if (yes) { return; }
        value = 1;
    }
}

INGRESS {
    Fill() fill;
    apply {
        bit<8> value = 0;
        fill.apply(meta.flag, value);
        meta.kept = value;
    }
}

PROGRAM(Tested(), NoEgress());
