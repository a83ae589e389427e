// A parameter of a sub-control that nothing reads.
#include "../prelude.p4"

control Count(inout metadata_t meta, in ethernet_t ethernet) {
    apply { meta.x = meta.x + 1; }
}

INGRESS {
    Count() count;
    apply {
        count.apply(meta, hdr.ethernet);
    }
}

PROGRAM(Tested(), NoEgress());
