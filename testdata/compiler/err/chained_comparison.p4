#include "../prelude.p4"

INGRESS {
    apply {
        meta.flag = meta.x == hdr.word.a == hdr.ethernet.dst_addr[31:0];
    }
}

PROGRAM(Tested(), NoEgress());
