// @name changes what the control plane sees.
#include "../prelude.p4"

INGRESS {
    @name("assign") action set(bit<32> value) { meta.x = value; }
    @name(".lookup") table t { key = { hdr.word.a: exact @name("word"); } actions = { set; @defaultonly NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
