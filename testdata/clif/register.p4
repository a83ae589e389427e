// A register that is read, added to and written, and a counter, each with a check of its index.
#define METADATA bit<32> total;
#include "include/program.p4"

INGRESS {
    register<bit<32>>(256) totals;
    counter(256, CounterType.packets_and_bytes) seen;
    apply {
        totals.read(meta.total, (bit<32>) hdr.ipv4.protocol);
        totals.write((bit<32>) hdr.ipv4.protocol, meta.total + (bit<32>) hdr.ipv4.total_len);
        seen.count((bit<32>) hdr.ipv4.protocol);
    }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
