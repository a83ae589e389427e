// Longest prefix wins, whatever the order of the entries; prefix 0 matches all (section 14.2.1).
header data_t {
    bit<32> address;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table routes {
        key = { hdr.data.address: lpm; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply { routes.apply(); }
}

PROGRAM;
