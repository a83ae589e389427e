// A loop that applies something is written out, round by round; break and continue go on behind
// the loop and at the next round.
header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> rounds;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

control Add(inout data_t data, in bit<8> value) {
    apply { data.sum = data.sum + value; }
}

INGRESS {
    Add() add;
    apply {
        for (bit<8> i = 1; i < 6; i = i + 1) {
            if (i == hdr.data.n) { continue; }
            if (i == 4 && hdr.data.n == 0xff) { break; }
            add.apply(hdr.data, i);
            hdr.data.rounds = hdr.data.rounds + 1;
        }
    }
}

PROGRAM;
