// The size of a union is that of its longest member (section 9).
#include "../prelude.p4"

header short_t { bit<16> value; }
header long_t { bit<32> value; varbit<64> rest; }
header_union either_t { short_t narrow; long_t wide; word_t word; }
struct both_t { either_t first; short_t second; }

INGRESS {
    apply {
        either_t u;
        u.narrow.setInvalid();
        meta.x = (bit<32>) u.minSizeInBits() + 0x1000 * (bit<32>) u.maxSizeInBits();
        meta.y = (bit<16>) long_t.minSizeInBytes() + 0x100 * (bit<16>) long_t.maxSizeInBytes();
        meta.kept = (bit<8>) (either_t.maxSizeInBytes() + both_t.minSizeInBytes());
    }
}

PROGRAM(Tested(), NoEgress());
