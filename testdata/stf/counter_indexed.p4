// counter: packets, bytes and both, by an index known at run time; beyond the end nothing counts (v1model).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    counter(4, CounterType.packets) packets;
    counter(4, CounterType.bytes) bytes;
    counter(4, CounterType.packets_and_bytes) both;
    apply {
        packets.count((bit<32>) hdr.data.a);
        bytes.count((bit<32>) hdr.data.a);
        if (hdr.data.b != 0) { both.count((bit<32>) hdr.data.b); }
    }
}

PROGRAM;
