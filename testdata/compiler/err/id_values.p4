#include "../prelude.p4"

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    @id("one") action one(@id(A_MACRO_THAT_IS_NOT) bit<9> port) { sm.egress_spec = port; }
    @id(1 + 1) action two() { }
    @id action three() { }
    @max_group_size("x") action_profile(16) profile;
    table t {
        key = { sm.ingress_port: exact @id(one); }
        actions = { one; two; three; }
        implementation = profile;
    }
    apply { t.apply(); }
}

PROGRAM(TestIngress(), NoEgress());
