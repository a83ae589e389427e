// Since version 20200408 the index of a counter, meter and register has a type of its own (v1model).
#define V1MODEL_VERSION 20200408
header data_t {
    bit<8>  index;
    bit<16> value;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    register<bit<16>, bit<8>>(16) cells;
    counter<bit<8>>(16, CounterType.packets) seen;
    meter<bit<8>>(16, MeterType.bytes) rates;
    apply {
        bit<16> old;
        bit<2> colour;
        PortId_t port = 4;
        cells.read(old, hdr.data.index);
        cells.write(hdr.data.index, old + 1);
        seen.count(hdr.data.index);
        rates.execute_meter(hdr.data.index, colour);
        hdr.data.value = old + (bit<16>) colour;
        standard_metadata.egress_spec = port;
    }
}

PROGRAM;
