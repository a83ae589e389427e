// Literals in every base, with underscores, with a width, signed (section 6.4.3).
header data_t {
    bit<8>  binary;
    bit<8>  octal;
    bit<16> decimal;
    bit<16> hexadecimal;
    bit<8>  wide_decimal;
    int<8>  negative;
    int<16> signed_hexadecimal;
    bit<64> long_one;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.binary = 0b1010_0101;
        hdr.data.octal = 0o17;
        hdr.data.decimal = 0d1_000;
        hdr.data.hexadecimal = 16w0xBe_eF;
        hdr.data.wide_decimal = 8w200;
        hdr.data.negative = -8s1;
        hdr.data.signed_hexadecimal = 16s0X7f;
        hdr.data.long_one = 0xFFFF_0000_1234_5678;
    }
}

PROGRAM;
