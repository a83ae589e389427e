#include "../prelude.p4"

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action one(@id(2) bit<9> port, @id(2) bit<32> value) { sm.egress_spec = port; meta.x = value; }
    table t {
        key = { sm.ingress_port: exact @id(0); sm.egress_spec: exact @id(0x100000000); }
        actions = { one; NoAction; }
    }
    apply { t.apply(); }
}

PROGRAM(TestIngress(), NoEgress());
