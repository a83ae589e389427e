// A loop that applies something is written out though its variable is an argument of a register, a function of the
// architecture or a control, where these only read it (section 12.8).
header data_t {
    bit<8>  n;
    bit<8>  sum;
    bit<16> cells;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Keep(in bit<32> at, in bit<8> value, inout bit<8> sum) {
    register<bit<8>>(4) kept;
    apply {
        kept.write(at, value);
        sum = sum + value;
    }
}

INGRESS {
    Keep() keep;
    register<bit<8>>(4) cells;
    apply {
        for (bit<32> i = 0; i < 4; i = i + 1) {
            cells.write(i, (bit<8>)i + hdr.data.n);
            keep.apply(i, (bit<8>)i, hdr.data.sum);
        }
        bit<8> cell;
        for (bit<32> i in 1 .. 2) {
            cells.read(cell, i);
            hdr.data.cells = (hdr.data.cells << 8) | (bit<16>)cell;
            keep.apply(i, cell, hdr.data.sum);
        }
    }
}

PROGRAM;
