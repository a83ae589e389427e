// One exact table: the key in registers, a lookup, counters, and one of two actions.
#include "include/program.p4"

INGRESS {
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action drop() { mark_to_drop(standard_metadata); }
    table stations {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { stations.apply(); }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
