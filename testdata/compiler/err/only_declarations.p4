#include <core.p4>

header h_t { bit<8> a; }

control C(inout h_t h) {
    apply { h.b = 1; }
}
