// What only an annotation names is used; so is what says itself that it is not.
#include "../prelude.p4"

const int KEPT = 1;
@note[level = KEPT]
struct noted_t {
    bit<8> x;
}
noted_t unchanged(in noted_t value, in bit<8> _unused) {
    return value;
}
control Noted(inout metadata_t meta) {
    apply {
        noted_t noted = { 1 };
        noted = unchanged(noted, 1);
        meta.kept = noted.x;
    }
}

INGRESS {
    Noted() noted;
    apply {
        bit<8> _reserved;
        noted.apply(meta);
    }
}

PROGRAM(Tested(), NoEgress());
