// A member without an @id gets one that no other has; the default action's arguments have the same.
#include "../prelude.p4"

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<9> port, @id(1) bit<16> y, bit<32> x, @id(7) bit<8> kept) {
        sm.egress_spec = port;
        meta.y = y;
        meta.x = x;
        meta.kept = kept;
    }
    table t {
        key = { sm.ingress_port: exact; meta.y: exact @id(1); }
        actions = { set; }
        const default_action = set(1, 2, 3, 4);
    }
    apply { t.apply(); }
}

PROGRAM(TestIngress(), NoEgress());
