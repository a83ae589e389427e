// const entries with lpm, range and exact keys (section 14.2.1.4).
header data_t {
    bit<16> a;
    bit<8>  b;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = hdr.data.result + value; }
    table by_prefix {
        key = { hdr.data.a: lpm; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            0x1200 &&& 0xff00: set(1);
            0x1230 &&& 0xfff0: set(2);
            0x1234: set(3);
        }
    }
    table by_range {
        key = { hdr.data.b: range; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            10 .. 20: set(0x10);
            15 .. 30: set(0x20);
            40: set(0x30);
        }
    }
    apply {
        by_prefix.apply();
        by_range.apply();
    }
}

PROGRAM;
