#include "../prelude.p4"

extern Fold<T> {
    Fold(T first);
    abstract T step(in T value);
    abstract void done(inout T value);
}

INGRESS {
    Fold(16w1) direction = {
        bit<16> step(in bit<16> value) { return value; }
        void done(in bit<16> value) { }
    };
    Fold(16w1) width = {
        bit<8> step(in bit<8> value) { return value; }
        void done(inout bit<16> value) { }
    };
    apply { }
}

PROGRAM(Tested(), NoEgress());
