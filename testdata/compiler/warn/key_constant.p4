// A key that is a constant.
#include "../prelude.p4"

INGRESS {
    action set(bit<32> x) { meta.x = x; }
    table t {
        key = { 8w1: exact @name("one"); }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
