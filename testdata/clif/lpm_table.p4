// A longest prefix match whose action edits packed fields of a header.
#include "include/program.p4"

INGRESS {
    action route(bit<9> port, bit<48> next_hop) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { route; NoAction; }
        default_action = NoAction();
    }
    apply { if (hdr.ipv4.isValid()) { routes.apply(); } }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
