// Structs and headers with type parameters (section 7.2.11).
header wrapped_t<T> {
    T      value;
    bit<8> check;
}
struct pair_t<A, B> {
    A left;
    B right;
}
struct checked_t<T> {
    T    value;
    bool is_right;
}
struct headers_t { wrapped_t<bit<16>> data; }
struct metadata_t { pair_t<bit<16>, checked_t<bit<8>>> pair; }
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.pair = { hdr.data.value, { 8w3, hdr.data.check == 0 } };
        pair_t<bit<8>, bit<8>> local_one = { right = 1, left = 2 };
        if (meta.pair.right.is_right) {
            hdr.data.value = meta.pair.left + (bit<16>) meta.pair.right.value;
            hdr.data.check = local_one.left;
        }
    }
}

PROGRAM;
