// type with a translation, typedef, and their names in P4Info.
#include "../prelude.p4"

@p4runtime_translation("example/port", string)
type bit<9> port_id_t;
type bit<16> group_t;
typedef bit<32> address_t;

INGRESS {
    port_id_t port = (port_id_t) standard_metadata.ingress_port;
    action send(group_t group, address_t address) { meta.y = (bit<16>) group; meta.x = address; }
    table t { key = { port: exact; } actions = { send; NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
