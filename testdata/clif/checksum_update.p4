// The checksum of an IPv4 header: a sum over packed bytes, in the deparser.
#include "include/program.p4"

INGRESS { apply { hdr.ipv4.ttl = hdr.ipv4.ttl - 1; } }
EGRESS { apply { } }
UPDATE {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version_ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
              hdr.ipv4.dst_addr },
            hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}
PROGRAM;
