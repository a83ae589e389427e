// Registers of several widths, read into a field and into a slice.
#include "../prelude.p4"

INGRESS {
    register<bit<64>>(128) wide;
    register<bit<8>>(2) small;
    bit<64> block;
    apply {
        wide.read(block, (bit<32>) hdr.word.c);
        meta.x = block[63:32];
        small.read(hdr.word.a[7:0], 0);
        small.write(1, hdr.word.c);
    }
}

PROGRAM(Tested(), NoEgress());
