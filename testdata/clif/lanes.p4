// The same two rounds under four keys: vectors of four words.
#define METADATA bit<32> a; bit<32> b; bit<32> c; bit<32> d;
#include "include/program.p4"

#define ROUND(word) \
    word = word + 0x9e3779b9; word = word ^ (word << 5); word = word + hdr.ipv4.src_addr; word = word ^ (word >> 7)
#define ALL ROUND(meta.a); ROUND(meta.b); ROUND(meta.c); ROUND(meta.d)

INGRESS {
    action mix() {
        ALL;
        ALL;
        hdr.ipv4.dst_addr = meta.a ^ meta.b ^ meta.c ^ meta.d;
    }
    apply { mix(); }
}
EGRESS { apply { } }
UPDATE { apply { } }
PROGRAM;
