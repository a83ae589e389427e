#include "../prelude.p4"

control A() {
    action a(string s) { }
    action b(register<bit<8>> r) { }
    apply { }
}

PROGRAM(NoEgress(), NoEgress());
