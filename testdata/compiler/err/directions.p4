#include "../prelude.p4"

extern E { E(); }
control A(in E e) { apply { } }
control B()(in bit<8> size) { apply { } }
extern void f(out string s);

PROGRAM(NoEgress(), NoEgress());
