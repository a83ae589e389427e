#include "../prelude.p4"

// Nobody uses these, and whatever the types are, these are mistakes.
void give<T>(inout T place) { }
T same<T>(bit<8> x) { return x; }
void pass<T>(in T value) {
    give(value);
    missing(value);
}
control Counting<T>(in T value, inout bit<8> out_value) {
    apply { out_value = value; }
}
T twice<T>(in T value) { return twice(value); }

INGRESS { apply { } }

PROGRAM(Tested(), NoEgress());
