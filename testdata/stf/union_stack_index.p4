// A stack of unions with an index that only the packet has (sections 8.18 and 8.20).
header data_t {
    bit<8> operation;
    bit<8> index;
    bit<8> result;
}
header short_t {
    bit<8> kind;
    bit<8> value;
}
header long_t {
    bit<8>  kind;
    bit<16> value;
}
header_union option_t {
    short_t narrow;
    long_t  wide;
}
struct headers_t {
    data_t      data;
    option_t[2] options;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.options[0].narrow);
        packet.extract(hdr.options[1].wide);
        transition accept;
    }
}

INGRESS {
    option_t[2] own;

    action count(inout option_t option) {
        option.narrow.value = option.narrow.value + 1;
    }

    apply {
        bit<1> i = (bit<1>)hdr.data.index;
        if (hdr.data.operation == 1) {
            hdr.options[1] = hdr.options[i];
        } else if (hdr.data.operation == 2) {
            hdr.options[i] = hdr.options[1];
        } else if (hdr.data.operation == 3) {
            // The other member is no longer valid.
            hdr.options[i].wide.setValid();
            hdr.options[i].wide = { 7, 0x0102 };
        } else if (hdr.data.operation == 4) {
            hdr.options[i].narrow.setInvalid();
        } else if (hdr.data.operation == 5) {
            if (hdr.options[i].narrow.isValid()) { hdr.data.result = hdr.options[i].narrow.value; }
        } else if (hdr.data.operation == 6) {
            hdr.options[0].narrow.setInvalid();
            if (hdr.options[i].isValid()) { hdr.data.result = 0xff; }
        } else if (hdr.data.operation == 7) {
            hdr.options[i].wide = hdr.options[1].wide;
        } else if (hdr.data.operation == 8) {
            count(hdr.options[i]);
        } else if (hdr.data.operation == 9) {
            own[1].narrow = { 9, 9 };
            hdr.options[0] = own[i];
        } else if (hdr.data.operation == 10) {
            hdr.options = { hdr.options[1], hdr.options[0] };
        } else if (hdr.data.operation == 11) {
            hdr.options[0] = hdr.options[0];
            hdr.options = hdr.options;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
