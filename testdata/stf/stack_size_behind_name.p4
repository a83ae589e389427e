// A stack whose size stands behind its name, as in C: p4c takes it, the grammar has it before the name.
const bit<32> N = 2;
header word_t { bit<8> a; }
struct headers_t {
    word_t words[N];
    word_t[2] others;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.words.next);
        packet.extract(hdr.words.next);
        packet.extract(hdr.others.next);
        transition accept;
    }
}

INGRESS {
    apply { hdr.words[1].a = hdr.words[0].a + hdr.others[0].a; }
}

SWITCH(TestParser, TestIngress, NoEgress);
