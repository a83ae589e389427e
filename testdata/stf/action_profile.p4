// action_profile: entries name members, two tables share a profile (v1model).
header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> first;
    bit<8> second;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action_profile(16) shared_profile;
    action add(bit<8> value) {
        hdr.data.first = hdr.data.first + value;
        hdr.data.second = hdr.data.second + 1;
    }
    table one {
        key = { hdr.data.a: exact; }
        actions = { add; NoAction; }
        default_action = NoAction();
        implementation = shared_profile;
    }
    table two {
        key = { hdr.data.b: ternary; }
        actions = { add; NoAction; }
        default_action = NoAction();
        implementation = shared_profile;
    }
    apply {
        one.apply();
        two.apply();
    }
}

PROGRAM;
