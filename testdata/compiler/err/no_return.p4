#include "../prelude.p4"

bit<32> f(in bit<32> a) { if (a == 1) { return 2; } }
void g() { return 3; }
bit<8> h() { return; }

INGRESS {
    apply {
        meta.x = f(1);
    }
}

PROGRAM(Tested(), NoEgress());
