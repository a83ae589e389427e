// A hash over two fields, over fields and a constant with an odd number of bytes, with a base and a
// maximum, and with the maximum 0.
header data_t {
    bit<32> a;
    bit<16> b;
}

header result_t {
    bit<32> whole;
    bit<32> odd;
    bit<16> limited;
    bit<8>  none;
}

struct headers_t {
    data_t   data;
    result_t result;
}

struct metadata_t { }

#include "one_header.p4"

INGRESS {
    apply {
        bit<32> whole;
        bit<32> odd;
        bit<16> limited;
        bit<8> none;
        hash(whole, ALGORITHM, 32w0, { hdr.data.a, hdr.data.b }, 33w0x100000000);
        hash(odd, ALGORITHM, 32w0, { hdr.data.b, 8w0x5a, hdr.data.a }, 33w0x100000000);
        hash(limited, ALGORITHM, 16w1000, { hdr.data.a, hdr.data.b }, 16w100);
        hash(none, ALGORITHM, 8w9, { hdr.data.a }, 8w0);
        hdr.result.setValid();
        hdr.result.whole = whole;
        hdr.result.odd = odd;
        hdr.result.limited = limited;
        hdr.result.none = none;
    }
}

PROGRAM;
