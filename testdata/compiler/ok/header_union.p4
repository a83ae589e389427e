// A header union in the metadata.
#include "../prelude.p4"

header number_t { bit<32> value; }
header letter_t { bit<8> value; }
header_union either_t { number_t number; letter_t letter; }

INGRESS {
    either_t u;
    apply {
        u.number.setValid();
        u.number.value = 3;
        if (u.isValid()) { meta.x = u.number.value; }
    }
}

PROGRAM(Tested(), NoEgress());
