// A table without a key runs its default action, and misses (section 14.2).
header data_t {
    bit<8> a;
    bit<8> hit;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action add(bit<8> value) { hdr.data.a = hdr.data.a + value; }
    table with_empty_key {
        key = { }
        actions = { add; }
        default_action = add(1);
    }
    table without_key {
        actions = { add; NoAction; }
        default_action = add(0x10);
    }
    apply {
        with_empty_key.apply();
        hdr.data.hit = without_key.apply().hit ? 8w1 : 2;
    }
}

PROGRAM;
