// A meter whose rates nobody has set says green, as does a direct one (v1model).
header data_t {
    bit<8> index;
    bit<8> colour;
    bit<8> direct;
}
struct headers_t { data_t data; }
struct metadata_t { bit<2> direct; }
#include "include/one_header.p4"

INGRESS {
    meter(4, MeterType.packets) rates;
    direct_meter<bit<2>>(MeterType.bytes) own;
    action read_it() { own.read(meta.direct); }
    table t {
        key = { hdr.data.index: exact; }
        actions = { read_it; NoAction; }
        default_action = NoAction();
        meters = own;
    }
    apply {
        bit<8> colour = 0xff;
        rates.execute_meter((bit<32>) hdr.data.index, colour);
        hdr.data.colour = colour;
        meta.direct = 3;
        t.apply();
        hdr.data.direct = (bit<8>) meta.direct;
    }
}

PROGRAM;
