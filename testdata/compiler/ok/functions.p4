// Functions with locals, early returns and calls in expressions.
#include "../prelude.p4"

bit<32> max(in bit<32> left, in bit<32> right) {
    if (left > right) { return left; }
    return right;
}
bit<32> plus(in bit<32> value, in bit<32> more) { return value + more; }
bit<16> fold(in bit<32> sum) {
    bit<32> low = (sum & 0xffff) + (sum >> 16);
    return ~low[15:0];
}

INGRESS {
    apply {
        meta.x = max(hdr.word.a, plus(meta.x, 1)) + 1;
        hdr.word.b = fold(hdr.word.a);
    }
}

PROGRAM(Tested(), NoEgress());
