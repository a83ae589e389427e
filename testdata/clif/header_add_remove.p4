// A header that is added and one that is removed: zeros, validity, packet length.
#include "include/program.p4"

INGRESS {
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.setInvalid();
        } else {
            hdr.ipv4.setValid();
            hdr.ipv4.ttl = 64;
            hdr.ipv4.src_addr = 0x0a000001;
        }
    }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
