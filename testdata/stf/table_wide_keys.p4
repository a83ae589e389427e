// Keys of 128 bits of every kind, and action data of 128 bits (section 14.2.1).
header data_t {
    bit<128> address;
    bit<8>   result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action replace(bit<128> by) { hdr.data.address = by; }
    action set(bit<8> value) { hdr.data.result = hdr.data.result + value; }
    table one { key = { hdr.data.address: exact; } actions = { replace; NoAction; } default_action = NoAction(); }
    table two { key = { hdr.data.address: lpm; } actions = { set; NoAction; } default_action = NoAction(); }
    table three { key = { hdr.data.address: ternary; } actions = { set; NoAction; } default_action = NoAction(); }
    apply {
        one.apply();
        two.apply();
        three.apply();
    }
}

PROGRAM;
