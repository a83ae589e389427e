// A header type that nothing has.
#include "../prelude.p4"

header vlan_t {
    bit<16> tag;
    bit<16> ether_type;
}

INGRESS {
    apply {
    }
}

PROGRAM(Tested(), NoEgress());
