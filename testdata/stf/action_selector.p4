// action_selector: the hash over the selector keys chooses a member of the group (v1model).
header data_t {
    bit<8>  kind;
    bit<32> flow;
    bit<8>  member;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action_selector(HashAlgorithm.crc16, 32, 16) spread;
    action set(bit<8> member) { hdr.data.member = member; }
    table choose {
        key = {
            hdr.data.kind: exact;
            hdr.data.flow: selector;
        }
        actions = { set; NoAction; }
        default_action = NoAction();
        implementation = spread;
    }
    apply { choose.apply(); }
}

PROGRAM;
