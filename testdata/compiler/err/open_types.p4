#include "../prelude.p4"

struct pair_t<T> { T a; T b; }
const pair_t<_> PAIR = { 1w1, 1w0 };
extern Box<T> { Box(); }
extern void show<T>(in T value);
control Uses(Box box) { apply { } }

INGRESS {
    apply {
        pair_t<_> both = { 8w1, 8w2 };
        show("text");
    }
}

PROGRAM(Tested(), NoEgress());
