#include "../prelude.p4"
#define TEN(n) bit<65536> n##0; bit<65536> n##1; bit<65536> n##2; bit<65536> n##3; bit<65536> n##4; \
    bit<65536> n##5; bit<65536> n##6; bit<65536> n##7; bit<65536> n##8; bit<65536> n##9;

struct big_t { TEN(a) TEN(b) TEN(c) TEN(d) TEN(e) TEN(f) }

INGRESS {
    apply {
        big_t[10] all;
        all[0].a0 = 1;
        meta.x = (bit<32>) all[0].a0;
    }
}

PROGRAM(Tested(), NoEgress());
