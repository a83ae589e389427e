#include "../prelude.p4"

bit<32> f0(bit<32> x) { return x + 1; }
bit<32> f1(bit<32> x) { return f0(x) + f0(x ^ 1); }
bit<32> f2(bit<32> x) { return f1(x) + f1(x ^ 1); }
bit<32> f3(bit<32> x) { return f2(x) + f2(x ^ 1); }
bit<32> f4(bit<32> x) { return f3(x) + f3(x ^ 1); }
bit<32> f5(bit<32> x) { return f4(x) + f4(x ^ 1); }
bit<32> f6(bit<32> x) { return f5(x) + f5(x ^ 1); }
bit<32> f7(bit<32> x) { return f6(x) + f6(x ^ 1); }
bit<32> f8(bit<32> x) { return f7(x) + f7(x ^ 1); }
bit<32> f9(bit<32> x) { return f8(x) + f8(x ^ 1); }
bit<32> f10(bit<32> x) { return f9(x) + f9(x ^ 1); }
bit<32> f11(bit<32> x) { return f10(x) + f10(x ^ 1); }
bit<32> f12(bit<32> x) { return f11(x) + f11(x ^ 1); }
bit<32> f13(bit<32> x) { return f12(x) + f12(x ^ 1); }
bit<32> f14(bit<32> x) { return f13(x) + f13(x ^ 1); }
bit<32> f15(bit<32> x) { return f14(x) + f14(x ^ 1); }
bit<32> f16(bit<32> x) { return f15(x) + f15(x ^ 1); }
bit<32> f17(bit<32> x) { return f16(x) + f16(x ^ 1); }
bit<32> f18(bit<32> x) { return f17(x) + f17(x ^ 1); }
bit<32> f19(bit<32> x) { return f18(x) + f18(x ^ 1); }
bit<32> f20(bit<32> x) { return f19(x) + f19(x ^ 1); }
bit<32> f21(bit<32> x) { return f20(x) + f20(x ^ 1); }
bit<32> f22(bit<32> x) { return f21(x) + f21(x ^ 1); }
bit<32> f23(bit<32> x) { return f22(x) + f22(x ^ 1); }
bit<32> f24(bit<32> x) { return f23(x) + f23(x ^ 1); }

INGRESS {
    apply {
        meta.x = f24(meta.x);
    }
}

PROGRAM(Tested(), NoEgress());
