// What the deprecated call keeps are fields: a number, with or without a width, keeps nothing.
#include "../prelude.p4"

control TestedEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == 0) {
            recirculate(0);
        }
    }
}

INGRESS { apply { } }

PROGRAM(Tested(), TestedEgress());
