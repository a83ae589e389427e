// A register written by the control plane, read by the program, and the other way round (v1model).
header data_t {
    bit<8>  index;
    bit<16> value;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    register<bit<16>>(8) cells;
    apply {
        bit<16> old;
        cells.read(old, (bit<32>) hdr.data.index);
        cells.write((bit<32>) hdr.data.index + 1, old + hdr.data.value);
        hdr.data.value = old;
    }
}

PROGRAM;
