// setInvalid of any member makes the union invalid, and so does an invalid header that is assigned to one (section 8.20).
header data_t { bit<8> what; bit<8> valid; }
header short_t { bit<8> value; }
header long_t { bit<16> value; }
header_union number_t {
    short_t narrow;
    long_t  wide;
    short_t other;
}
struct headers_t {
    data_t      data;
    number_t    number;
    number_t[2] numbers;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.number.narrow);
        packet.extract(hdr.numbers[0].wide);
        packet.extract(hdr.numbers[1].wide);
        transition accept;
    }
}

INGRESS {
    apply {
        short_t nothing;
        nothing.setInvalid();
        if (hdr.data.what == 1) { hdr.number.wide.setInvalid(); }
        if (hdr.data.what == 2) { hdr.number.narrow.setInvalid(); }
        if (hdr.data.what == 3) { hdr.number.other = nothing; }
        if (hdr.data.what == 4) { hdr.number.other = hdr.number.narrow; }
        if (hdr.data.what == 5) { hdr.number.narrow = hdr.number.other; }
        if (hdr.data.what == 6) { hdr.number.wide = {#}; }
        if (hdr.data.what >= 0x10) { hdr.numbers[hdr.data.what & 0xf].narrow.setInvalid(); }
        hdr.data.valid = (bit<8>) (bit<1>) hdr.number.isValid()
            + 2 * (bit<8>) (bit<1>) hdr.numbers[0].isValid() + 4 * (bit<8>) (bit<1>) hdr.numbers[1].isValid();
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
