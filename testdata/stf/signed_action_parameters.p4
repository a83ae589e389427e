// Parameters of int<W> that entries give have a sign: they are widened, compared, shifted and added with it
// (sections 8.5 to 8.10).
header data_t {
    bit<8>  which;
    int<32> wide;
    bit<8>  negative;
    int<8>  shifted;
    int<8>  sum;
    bit<56> rest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action use(int<8> value, int<12> other) {
        hdr.data.wide = (int<32>)value + (int<32>)other;
        hdr.data.negative = value < 0 ? 8w1 : 8w0;
        hdr.data.shifted = value >> 1;
        hdr.data.sum = value |-| 100;
    }
    table t {
        key = { hdr.data.which: exact; }
        actions = { use; }
        default_action = use(-1, -2);
        const entries = { 1: use(-128, 2047); 2: use(127, -2048); }
    }
    table written {
        key = { hdr.data.which: ternary; }
        actions = { use; NoAction; }
    }
    apply {
        t.apply();
        written.apply();
    }
}

PROGRAM;
