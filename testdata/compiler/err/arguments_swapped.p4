#include "../prelude.p4"

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<32>>(16) cells;
    apply {
        bit<32> wide = 0;
        bit<8> narrow = 0;
        cells.read(3, wide);
        cells.read(3, narrow);
        cells.read(wide + 1, wide);
        hash(3, HashAlgorithm.crc16, narrow, { wide }, 8w4);
        // Nothing here could be written: the order is not what is wrong.
        cells.read(1, 2);
        cells.write(0, wide);
    }
}

PROGRAM(TestIngress(), NoEgress());
