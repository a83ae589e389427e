#include "../prelude.p4"

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // Names all the same: `key`, `actions`, `entries`, `state`, `type`, `list`, `priority`, `apply`.
    bit<8> key = 1;
    bit<8> list = 1;
    apply {
        bit<8> table = 1;
        bit<8> continue = 1;
        sm.egress_spec = (bit<9>)(key + list);
    }
}

control abstract() { apply { } }

struct break { bit<8> a; }

PROGRAM(TestIngress(), NoEgress());
