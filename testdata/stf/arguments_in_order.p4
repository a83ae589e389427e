// Arguments are evaluated and copied in from left to right, and copied out from left to right: of an extern's too, where a
// call in a later one changes what an earlier one reads, and where one is a slice of the other (section 6.8).
header data_t {
    bit<8>  what;
    bit<16> x;
    bit<8>  n;
    bit<8>  result;
    bit<72> rest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n + 0x10;
}

control SliceAndWhole(out bit<8> slice, inout bit<16> whole) {
    apply {
        slice = 0xff;
        whole = whole + 1;
    }
}

control WholeAndSlice(inout bit<16> whole, inout bit<8> slice) {
    apply {
        whole = whole + 1;
        slice = slice + 1;
    }
}

INGRESS {
    register<bit<8>>(4) cells;
    SliceAndWhole() first;
    WholeAndSlice() second;
    apply {
        switch (hdr.data.what) {
            0: {
                // The cell is that of `n` as it was.
                cells.write((bit<32>)hdr.data.n, next(hdr.data.n));
                cells.read(hdr.data.result, (bit<32>)(hdr.data.n - 1));
            }
            // The whole is copied out behind the slice, then the slice behind the whole.
            1: { first.apply(hdr.data.x[11:4], hdr.data.x); }
            2: { second.apply(hdr.data.x, hdr.data.x[11:4]); }
        }
    }
}

PROGRAM;
