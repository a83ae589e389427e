// An `out` parameter that gets a value on one path only.
#include "../prelude.p4"

void fill(in bool yes, out bit<8> value) {
    if (yes) { value = 1; }
}

INGRESS {
    apply {
        bit<8> value;
        fill(meta.flag, value);
        meta.kept = value;
    }
}

PROGRAM(Tested(), NoEgress());
