// Parameters as the architecture's blocks have them, a controller's header, an action without a body.
#include "../prelude.p4"

@controller_header("packet_in")
header packet_in_t {
    bit<16> port;
}

control Count(inout headers_t hdr, inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {
    apply { meta.x = meta.x + 1; }
}

INGRESS {
    Count() count;
    action announce(bit<32> queue) { }
    table announced {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { announce; NoAction; }
        default_action = NoAction();
    }
    apply {
        count.apply(hdr, meta, standard_metadata);
        announced.apply();
    }
}

PROGRAM(Tested(), NoEgress());
