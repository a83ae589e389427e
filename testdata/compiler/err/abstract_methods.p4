#include "../prelude.p4"

extern Choice {
    Choice();
    abstract bit<8> choose(in bit<8> a);
}

control Missing(inout bit<8> a) {
    Choice() choice;
    apply { a = choice.choose(a); }
}

control Other(inout bit<8> a) {
    Choice() choice = {
        bit<8> choose(in bit<8> a) { return a; }
        bit<8> refuse(in bit<8> a) { return a; }
    };
    apply { a = choice.choose(a); }
}

PROGRAM(NoEgress(), NoEgress());
