#include "../prelude.p4"

INGRESS {
    @name("first) action a() { }
    @name("second") action b() { }
    apply {
        a();
        b();
    }
}

PROGRAM(Tested(), NoEgress());
