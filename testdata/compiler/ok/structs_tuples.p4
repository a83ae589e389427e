// Structs and tuples are copied member by member; a swap reads before it writes.
#include "../prelude.p4"

struct pair_t {
    bit<32> left;
    bit<32> right;
}

INGRESS {
    apply {
        pair_t p = { 1, 2 };
        p = { p.right, p.left };
        pair_t q = { right = 4, left = 3 };
        q = p;
        tuple<bit<8>, bool> t = { 8w1, true };
        meta.x = p.left + q.right + (bit<32>) t[0];
        if (p == q) { meta.flag = t[1]; }
    }
}

PROGRAM(Tested(), NoEgress());
