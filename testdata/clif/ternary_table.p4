// Two ternary tables, which cost enough for a flow cache in front of them.
#include "include/program.p4"

INGRESS {
    action allow() { standard_metadata.egress_spec = 2; }
    action drop() { mark_to_drop(standard_metadata); }
    table sources {
        key = { hdr.ipv4.src_addr: ternary; }
        actions = { allow; drop; }
        default_action = drop();
    }
    table targets {
        key = { hdr.ipv4.dst_addr: ternary; hdr.ipv4.protocol: ternary; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    apply {
        sources.apply();
        targets.apply();
    }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
