#include "../prelude.p4"
#define TEN(x) x x x x x x x x x x
#define HUNDRED(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x)
#define THOUSAND(x) HUNDRED(TEN(x))
#define MILLION(x) THOUSAND(THOUSAND(x))

INGRESS {
    apply { MILLION(MILLION(meta.x = 1;)) }
}

PROGRAM(Tested(), NoEgress());
