// Fields of standard metadata, errors compared.
#include "../prelude.p4"

INGRESS {
    apply {
        if (standard_metadata.parser_error != error.NoError) { mark_to_drop(standard_metadata); }
        standard_metadata.mcast_grp = 7;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        if (standard_metadata.checksum_error == 1) { meta.x = (bit<32>) standard_metadata.egress_rid; }
    }
}

PROGRAM(Tested(), NoEgress());
