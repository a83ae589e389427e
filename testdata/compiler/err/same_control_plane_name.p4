#include "../prelude.p4"

INGRESS {
    @name(".r") register<bit<8>>(4) a;
    @name(".r") register<bit<8>>(4) b;
    apply {
        a.write(0, 1);
        b.write(0, 1);
    }
}

PROGRAM(Tested(), NoEgress());
