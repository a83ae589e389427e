// A stack whose size stands behind its name, as in C: p4c takes it, the grammar has it before the name.
// It may stand so wherever a name is declared.
const bit<32> N = 2;
header word_t { bit<8> a; }
typedef word_t words_t[N];
struct headers_t {
    words_t words;
    word_t[2] others;
    word_t added[3];
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

control Add(inout word_t sums[N], in word_t other) {
    apply { sums[1].a = sums[0].a + other.a; }
}

INGRESS {
    word_t kept[3];
    Add() add;
    apply {
        add.apply(hdr.words, hdr.others[0]);
        word_t local[3] = kept;
        local[2].setValid();
        local[2].a = hdr.words[1].a;
        hdr.added = local;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
