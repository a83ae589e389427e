// A meter of packets with two rates: green, yellow and red, and what time fills up again (v1model, RFC 2698).
header data_t {
    bit<8> index;
    bit<8> colour;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    meter(4, MeterType.packets) rates;
    apply {
        bit<8> colour = 0xff;
        rates.execute_meter((bit<32>) hdr.data.index, colour);
        hdr.data.colour = colour;
    }
}

PROGRAM;
