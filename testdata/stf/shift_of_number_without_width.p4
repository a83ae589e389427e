// An action's data is known for each call, so a number shifted by it needs no width of its own, as in p4c:
// it has the width that the shift is used with.
header data_t {
    bit<8> amount;
    bit<8> left;
    bit<8> right;
    bit<16> wide;
    bit<8> sum;
    bit<8> twice;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action shift(bit<8> n) {
        hdr.data.left = 3 << n;
        hdr.data.right = 0xf0 >> n;
        hdr.data.wide = (bit<16>)(-1 << n);
        hdr.data.sum = hdr.data.sum + (1 << n + 1);
        hdr.data.twice = (1 << n) << n;
    }
    table shifts {
        key = { hdr.data.amount: exact; }
        actions = { shift; }
        const entries = {
            1: shift(1);
            6: shift(6);
        }
    }
    apply {
        if (hdr.data.amount == 7) {
            shift(hdr.data.amount);
        } else {
            shifts.apply();
        }
    }
}

PROGRAM;
