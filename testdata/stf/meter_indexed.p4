// A meter's colour: green without rates, then what the two buckets of RFC 2698 say.
header data_t {
    bit<8> index;
    bit<8> color;
}
struct headers_t { data_t data; }
struct metadata_t { bit<2> color; }
#include "include/one_header.p4"

INGRESS {
    meter(4, MeterType.packets) by_packets;
    meter(4, MeterType.bytes) by_bytes;
    apply {
        if (hdr.data.color == 0) {
            by_packets.execute_meter((bit<32>) hdr.data.index, meta.color);
        } else {
            by_bytes.execute_meter((bit<32>) hdr.data.index, meta.color);
        }
        hdr.data.color = (bit<8>) meta.color;
    }
}

PROGRAM;
