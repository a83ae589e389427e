#include "../prelude.p4"
#define ROW(n) register<bit<64>>(0x1000000) n##0; register<bit<64>>(0x1000000) n##1; register<bit<64>>(0x1000000) n##2; \
    register<bit<64>>(0x1000000) n##3; counter(0x1000000, CounterType.packets) n##4;

INGRESS {
    ROW(a)
    ROW(b)
    ROW(c)
    ROW(d)
    ROW(e)
    apply {
        a0.write(0, 1);
    }
}

PROGRAM(Tested(), NoEgress());
