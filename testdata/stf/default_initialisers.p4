// `...` stands for zero, false, the first constant, an invalid header; in a list for what is left.
enum colour_t { RED, GREEN }
enum bit<8> code_t { ONE = 1 }
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}
struct pair_t {
    bit<8>   x;
    bit<8>   y;
    bool     z;
    colour_t colour;
    code_t   code;
}
struct headers_t {
    data_t data;
    data_t more;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        pair_t pair = { 5, ... };
        pair_t named = { y = 7, ... };
        data_t none = ...;
        bit<8> zero = ...;
        hdr.data.a = pair.x + pair.y + zero;
        hdr.data.b = named.x + named.y + (bit<8>) named.code;
        if (!pair.z && pair.colour == colour_t.RED && !none.isValid()) {
            hdr.data.c = 1;
        }
        hdr.more = { 9, ... };
    }
}

PROGRAM;
