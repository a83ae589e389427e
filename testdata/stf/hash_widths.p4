// hash over fields that do not end at byte borders: their bits are joined, the last byte filled up (v1model).
header data_t {
    bit<4>  a;
    bit<12> b;
    bit<3>  c;
    bit<5>  d;
    bit<32> result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        bit<32> result;
        hash(result, HashAlgorithm.crc32, 32w0, { hdr.data.b, hdr.data.a, hdr.data.d, hdr.data.c }, 33w0x100000000);
        hdr.data.result = result;
    }
}

PROGRAM;
