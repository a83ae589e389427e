// An lpm key beside an exact one: the prefix counts within the same exact value (section 14.2.1).
header data_t {
    bit<8>  tenant;
    bit<16> address;
    bit<8>  result;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table routes {
        key = { hdr.data.address: lpm; hdr.data.tenant: exact; }
        actions = { set; NoAction; }
        default_action = set(0xff);
    }
    apply { routes.apply(); }
}

PROGRAM;
